"""This module finds the clusters that come with the package."""

from importlib import resources
from pathlib import Path

from predictor.contracts.cluster import ClusterProfile
from predictor.data.clusters.toml_file import parse_cluster, read_cluster
from predictor.errors import ArgumentError


def example_names() -> tuple[str, ...]:
    """Return the names of the examples."""
    folder = resources.files("predictor.data.clusters") / "examples"
    return tuple(
        sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    )


def load_cluster(name_or_path: str) -> ClusterProfile:
    """Return the profile of a TOML file, or of an example by its name.

    Raises:
        ArgumentError: it is neither.
        FormatError: the file has faults.
    """
    if name_or_path in example_names():
        entry = resources.files("predictor.data.clusters") / "examples" / f"{name_or_path}.toml"
        return parse_cluster(entry.read_text(encoding="utf-8"), where=f"example {name_or_path}")
    if not Path(name_or_path).is_file():
        raise ArgumentError(
            f"cluster '{name_or_path}' is no file and no example; examples are {', '.join(example_names())}"
        )
    return read_cluster(Path(name_or_path))
