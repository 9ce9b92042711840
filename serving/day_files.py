"""This module appends lines to one file per UTC day and reads them back; nothing acknowledged is lost."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO


class DayFiles:
    """Files ``<prefix>-2026-11-03.jsonl`` in one directory, appended to by one process.

    Bytes after the last line feed are what a crash left of a line that was never acknowledged. They are
    moved to ``<file>.torn`` at the start, so that the files hold whole lines only.
    """

    def __init__(self, directory: Path, prefix: str) -> None:
        self._directory = directory
        self._name_pattern = re.compile(re.escape(prefix) + r"-(?P<day>\d{4}-\d{2}-\d{2})\.jsonl")
        self._prefix = prefix
        self._file: IO[bytes] | None = None
        self._name = ""
        self._size = 0  # of the open file, up to the last acknowledged line
        self.torn = sum(_cut_torn_line(directory / name) for name in self._names())

    def append(self, day: str, data: bytes) -> None:
        """Append whole lines and force them to disk.

        Raises:
            OSError: the disk is full or gone; call :meth:`withdraw`.
        """
        file = self._open(day)
        left = memoryview(data)
        while left:  # a disk that is nearly full takes a part of it and says so by the count alone
            left = left[file.write(left) :]
        os.fsync(file.fileno())

    def acknowledge(self, data: bytes) -> None:
        """Make what was appended part of the log."""
        self._size += len(data)

    def withdraw(self) -> None:
        """Cut off what was appended since the last acknowledgement."""
        if self._file is None:
            return
        path = self._directory / self._name
        self.close()
        try:
            os.truncate(path, self._size)
        except OSError:
            return  # a torn line is cut at the next start

    def sizes(self) -> dict[str, int]:
        """Return the acknowledged size of each file by name, in the order of days."""
        sizes = {name: (self._directory / name).stat().st_size for name in self._names()}
        if self._name in sizes:
            sizes[self._name] = self._size
        return sizes

    def lines(self, sizes: Mapping[str, int], first_day: str) -> Iterator[bytes]:
        """Yield the lines of the files from a day on, up to the given sizes."""
        for name, size in sizes.items():
            match = self._name_pattern.fullmatch(name)
            if match is None or match["day"] < first_day:
                continue
            left = size
            with (self._directory / name).open("rb") as file:
                for line in file:
                    left -= len(line)
                    if left < 0:
                        break
                    if line.strip():
                        yield line

    def close(self) -> None:
        """Close the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._name = ""

    def _names(self) -> list[str]:
        return sorted(p.name for p in self._directory.iterdir() if self._name_pattern.fullmatch(p.name))

    def _open(self, day: str) -> IO[bytes]:
        name = f"{self._prefix}-{day}.jsonl"
        if self._file is not None and name == self._name:
            return self._file
        self.close()
        path = self._directory / name
        file = path.open("ab", buffering=0)
        self._file, self._name, self._size = file, name, path.stat().st_size
        sync_directory(self._directory)
        return self._file


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cut_torn_line(path: Path) -> int:
    """Move the bytes after the last line feed to a file beside it; return 1 where there were any."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return 0
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return 0
        file.seek(0)
        whole = sum(len(line) for line in file if line.endswith(b"\n"))
        file.seek(whole)
        with path.with_name(path.name + ".torn").open("ab") as torn:
            torn.write(file.read() + b"\n")
        file.truncate(whole)
        file.flush()
        os.fsync(file.fileno())
    return 1
