"""This module says before a long run whether its results can be written where they are wanted."""

from pathlib import Path


def file_faults(option: str, path: Path | None) -> list[str]:
    """Return what is wrong with the file that an option names, [] = nothing."""
    if path is None or (path.absolute().parent.is_dir() and not path.is_dir()):
        return []
    return [f"{option} {path}: it must name a file in an existing folder"]


def folder_faults(option: str, path: Path | None) -> list[str]:
    """Return what is wrong with the folder, to be made where it is missing, that an option names."""
    if path is None:
        return []
    existing = next(part for part in (path.absolute(), *path.absolute().parents) if part.exists())
    return [] if existing.is_dir() else [f"{option} {path}: '{existing}' is a file, not a folder"]
