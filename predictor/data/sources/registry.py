"""This module names all log formats and finds the one of a file by its content."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from predictor.data.sources.base import Reader
from predictor.data.sources.column_map import parse_column_map
from predictor.data.sources.drac import DracReader
from predictor.data.sources.jobcomp import JobcompReader
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.mapped import MappedReader
from predictor.data.sources.mlperf import MlperfReader
from predictor.data.sources.pai import PaiReader
from predictor.data.sources.philly_json import PhillyJsonReader
from predictor.data.sources.sacct import SacctReader
from predictor.data.sources.sacct_json import SacctJsonReader
from predictor.data.sources.slurmdbd import SlurmdbdReader
from predictor.data.sources.swf import SwfReader
from predictor.errors import ArgumentError, EmptyInputError, FormatError

AUTO = "auto"
BUILT_IN_MAPS = ("acme", "crux", "dlrm", "eagle", "helios", "openb", "philly")


@cache
def readers() -> Mapping[str, Reader]:
    """Return all readers by name, in the order in which they are tried on a file of unknown format."""
    maps = files("predictor.data.sources") / "maps"
    found: list[Reader] = [DracReader(), SlurmdbdReader(), MlperfReader()]
    for name in BUILT_IN_MAPS:
        text = (maps / f"{name}.toml").read_text(encoding="utf-8")
        found.append(MappedReader(name=name, column_map=parse_column_map(text, f"{name}.toml")))
    found += [SacctJsonReader(), JobcompReader(), PhillyJsonReader(), SacctReader(), SwfReader(), PaiReader()]
    found += [MappedReader(name="csv", column_map=None), MappedReader(name="parquet", column_map=None)]
    return MappingProxyType({reader.name: reader for reader in found})


def find_reader(name: str) -> Reader:
    """Return the reader of a format.

    Raises:
        ArgumentError: there is no such format.
    """
    if name not in readers():
        raise ArgumentError(f"'{name}' is no log format; known are {AUTO}, {', '.join(readers())}")
    return readers()[name]


def mapped_reader(log: LogFile) -> Reader:
    """Return the reader of a table whose columns a map describes: Parquet, or else delimited text."""
    parquet = readers()["parquet"]
    return parquet if parquet.recognises(log) else readers()["csv"]


def recognise(log: LogFile) -> Reader:
    """Return the reader whose format the content has.

    Raises:
        EmptyInputError: the file is empty.
        FormatError: no reader knows the content; says how it begins and what is known.
    """
    if not log.data.strip():
        raise EmptyInputError(f"'{log.name}' is empty; give a log with at least one job")
    for reader in readers().values():
        if reader.recognises(log):
            return reader
    start = log.head(200).strip().split("\n", 1)[0][:120]
    found = f"it begins with '{start}'" if start else "it is binary"
    raise FormatError(
        f"'{log.name}' is of no known format: {found}; known are {', '.join(readers())}; "
        f"name the format with --format, or describe the columns with --map M.toml"
    )
