"""This module knows sacct's fields, how their values look, and the headerless layouts in use."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from predictor.errors import FormatError

_TIME = r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?|\d{1,13}|Unknown|None|NONE|)"
_CLOCK = r"(?:\d+-)?[\d:.]*|Partition_Limit|UNLIMITED|INVALID"
_COUNT = r"-?[\d.]*[KMGTP]?"
_SIZE = r"(?:[\d.]+[KMGTP]?[nc]?)?"
_TRES = r"(?:[\w/:.\-]+=[^,|=]*(?:,[\w/:.\-]+=[^,|=]*)*)?"
_WORD = r"[^\s|]*"
_LINE = r"[^|\n]*"

FREE_TEXT = (
    "jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra", "container",
    "stdout", "stdin", "stderr", "wckey", "constraints", "licenses", "dependency", "mcslabel",
)  # fmt: skip
_SHAPES = {
    _TIME: "submit eligible start end",
    _CLOCK: "elapsed timelimit totalcpu usercpu systemcpu suspended reserved planned resvcpu plannedcpu "
            "cputime avecpu",
    _COUNT: "elapsedraw timelimitraw allocnodes nnodes ncpus alloccpus reqcpus reqnodes priority gid uid "
            "associd cputimeraw ntasks restarts dbindex resvcpuraw plannedcpuraw maxrss averss maxvmsize",
    _SIZE: "reqmem",
    _TRES: "reqtres alloctres",
    r"[A-Z_]+\+?(?: by \S+)?": "state",
    r"\d*(?::\d*)?": "exitcode derivedexitcode",
    r"\d+(?:_(?:\d+|\[[^\]|]*\]))?(?:\+\d+)?(?:\.\w+)?": "jobid",
    r"\d+(?:\.\w+)?|": "jobidraw",
    _WORD: "user account partition qos cluster group",
}  # fmt: skip
_SHAPE_OF = {name: re.compile(shape) for shape, names in _SHAPES.items() for name in names.split()}
_OTHER_SHAPE = re.compile(_LINE)
KNOWN_FIELDS = frozenset(_SHAPE_OF) | set(FREE_TEXT) | {
    "nodelist", "reason", "flags", "reqgres", "allocgres", "tresusageinmax", "tresusageintot", "reservation",
}  # fmt: skip
HEADER_MARKS = frozenset(
    {"jobid", "jobidraw", "state", "submit", "jobname", "elapsed", "timelimit", "reqmem"}
)
DELIMITERS = ("\x1f", "|", "\x1e", "\t", ";", "^", ",")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Fields of a sacct dump, in order.

    Attributes:
        fields: lower-case names.
        delimiter: the field delimiter.
        trailing: whether each record ends with a delimiter (``--parsable`` does, ``--parsable2`` does not).
        optional_tail: count of fields at the end that older records of the dump lack.
    """

    fields: tuple[str, ...]
    delimiter: str
    trailing: bool = False
    optional_tail: int = 0

    def shape(self, index: int) -> "re.Pattern[str] | None":
        """Return the pattern of a field's values; None for free text, which may hold anything."""
        name = self.fields[index]
        return None if name in FREE_TEXT else _SHAPE_OF.get(name, _OTHER_SHAPE)


XDMOD = (
    "jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid",
    "submit", "eligible", "start", "end", "elapsed", "exitcode", "state", "nnodes", "ncpus", "reqcpus",
    "reqmem", "reqtres", "alloctres", "timelimit", "nodelist", "jobname",
)  # fmt: skip
# The layout of accounting dumps of cloud clusters, deduced from their values; the partition came later.
RESOURCE_USE = (
    "state", "jobid", "nnodes", "reqmem", "reqnodes", "constraints", "submit", "eligible", "start",
    "elapsed", "suspended", "end", "exitcode", "derivedexitcode", "alloccpus", "reqcpus", "maxdiskread",
    "maxdiskwrite", "maxpages", "maxrss", "maxvmsize", "cputime", "usercpu", "systemcpu", "totalcpu",
    "partition",
)  # fmt: skip
NAMED_LAYOUTS = ((XDMOD, 0), (RESOURCE_USE, 1))


def parse_header(line: str, delimiter: str | None = None) -> Layout | None:
    """Return the layout that a header line names, or None where the line is no header."""
    for candidate in [delimiter] if delimiter else DELIMITERS:
        names = tuple(name.strip().lower() for name in line.rstrip("\r\n").split(candidate))
        trailing = len(names) > 1 and names[-1] == ""
        names = names[:-1] if trailing else names
        upper = [name for name in line.split(candidate) if name.strip() and name.strip()[0].isupper()]
        marks = HEADER_MARKS & set(names)
        if len(names) > 1 and len(marks) >= min(2, len(names)) and len(upper) >= len(names) - 1 and all(
            re.fullmatch(r"[a-z0-9_]+", name) for name in names
        ):  # fmt: skip
            return Layout(fields=names, delimiter=candidate, trailing=trailing)
    return None


def layout_of_fields(fields: Sequence[str], delimiter: str, first_line: str) -> Layout:
    """Return the layout of a headerless dump whose fields the caller names.

    Raises:
        FormatError: the first record cannot have these fields.
    """
    names = tuple(name.strip().lower().split("%")[0] for name in fields)
    found = first_line.rstrip("\r\n").count(delimiter) + 1
    if found < len(names) and not set(names) & set(FREE_TEXT):
        raise FormatError(
            f"--fields names {len(names)} fields but the first record has {found}; "
            f"name the fields in the order of sacct's --format, or give the right --delimiter"
        )
    return Layout(
        fields=names,
        delimiter=delimiter,
        trailing=found > len(names) and first_line.rstrip("\r\n").endswith(delimiter),
    )


def guess_layout(line: str, delimiter: str | None = None) -> Layout | None:
    """Return the named headerless layout that the first record fits, or None."""
    for candidate in [delimiter] if delimiter else DELIMITERS:
        for fields, optional in NAMED_LAYOUTS:
            parts = line.rstrip("\r\n").split(candidate)
            trailing = len(parts) == len(fields) + 1 and parts[-1] == ""
            if trailing:
                parts.pop()
            if len(parts) > len(fields) and fields[-1] in FREE_TEXT:
                parts[len(fields) - 1 :] = [candidate.join(parts[len(fields) - 1 :])]
            if not 0 <= len(fields) - len(parts) <= optional:
                continue
            layout = Layout(fields=fields, delimiter=candidate, trailing=trailing, optional_tail=optional)
            shapes = [layout.shape(index) for index in range(len(parts))]
            if all(shape is None or shape.fullmatch(part) for shape, part in zip(shapes, parts, strict=True)):
                return layout
    return None
