"""This module says before a long run whether its results can be written where they are wanted.

It tries instead of asking for permissions: a read-only file system, and root, make these say little.
"""

import tempfile
from pathlib import Path


def file_faults(option: str, path: Path | None, *, as_whole: bool = False) -> list[str]:
    """Return what is wrong with the file that an option names, [] = nothing.

    Args:
        as_whole: it is written beside and then put in place, in a folder that is made where it is missing.
    """
    if path is None:
        return []
    folder = path.absolute().parent
    if path.is_dir() or not (as_whole or folder.is_dir()):
        return [f"{option} {path}: it must name a file in an existing folder"]
    if as_whole or not path.exists():
        return folder_faults(option, folder, told=path)
    try:
        if path.is_file():  # not a pipe or terminal
            path.open("ab").close()
    except OSError as error:
        return [f"{option} {path}: it cannot be written ({error.strerror}); name another place"]
    return []


def folder_faults(option: str, path: Path | None, *, told: Path | None = None) -> list[str]:
    """Return what is wrong with the folder, to be made where it is missing, that an option names.

    Args:
        told: what the option names, where that is something in the folder.
    """
    if path is None:
        return []
    existing = next(part for part in (path.absolute(), *path.absolute().parents) if part.exists())
    named = f"{option} {told or path}"
    if not existing.is_dir():
        return [f"{named}: '{existing}' is a file, not a folder"]
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        return [f"{named}: nothing can be written in '{existing}' ({error.strerror}); name another place"]
    return []
