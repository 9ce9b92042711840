"""This module opens log files, plain or compressed or archived, and decodes them to text."""

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from predictor.errors import EmptyInputError, FormatError

_GZIP = b"\x1f\x8b"
_EXTENSIONS = frozenset(
    ("gz", "tgz", "tar", "swf", "ext", "csv", "tsv", "txt", "log", "psv", "json", "jsonl", "parquet")
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1b\x1c\x1d\x1e\x1f"))
_CONTROL_SHARE = 0.01  # text has no control characters; a damaged log may have a few


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One decompressed log.

    Attributes:
        name: file name for messages; members of archives as ``archive.tgz:member``.
        data: its bytes.
    """

    name: str
    data: bytes

    @property
    def stem(self) -> str:
        """File name without folders and the extensions of known formats and compressions."""
        name = PurePosixPath(self.name.rsplit(":", 1)[-1]).name
        while "." in name and name.rsplit(".", 1)[1].lower() in _EXTENSIONS:
            name = name.rsplit(".", 1)[0]
        return name

    def head(self, size: int = 65536) -> str:
        """Return the first characters, for recognising the format; binary data gives an empty text."""
        start = self.data[:size]
        return "" if _is_binary(start) else start.decode("utf-8", errors="replace").removeprefix("\ufeff")

    def text(self) -> str:
        """Decode the log: UTF-8, or Latin-1 where it is not valid UTF-8 (nothing is lost either way).

        Raises:
            EmptyInputError: the file holds nothing but white space.
            FormatError: the file is binary.
        """
        if not self.data.strip():
            raise EmptyInputError(f"'{self.name}' is empty; give a log with at least one job")
        if _is_binary(self.data[:65536]):
            raise FormatError(f"'{self.name}' is binary, not a text log; give the log as text, .gz or .tgz")
        try:
            text = self.data.decode("utf-8")
        except UnicodeDecodeError:
            text = self.data.decode("latin-1")
        return text.removeprefix("\ufeff")


def open_logs(source: Path | BinaryIO, name: str | None = None) -> list[LogFile]:
    """Return the logs in a file: one, or one per member of a tar archive; gzip is undone at any depth.

    Raises:
        FormatError: the file cannot be read or its compression is damaged.
        EmptyInputError: the file has no bytes.
    """
    if isinstance(source, Path):
        name = name or source.name
        try:
            data = source.read_bytes()
        except OSError as error:
            raise FormatError(f"cannot read '{source}': {error.strerror}; check the path") from error
    else:
        data = source.read()
        name = name or "stream"
    if not data:
        raise EmptyInputError(f"'{name}' is empty; give a log with at least one job")
    try:
        while data.startswith(_GZIP):
            data = gzip.decompress(data)
        if tarfile.is_tarfile(io.BytesIO(data)):
            return _members(name, data)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise FormatError(f"'{name}' is a damaged archive ({error}); fetch or write it again") from error
    return [LogFile(name=name, data=data)]


def _members(name: str, data: bytes) -> list[LogFile]:
    logs = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive.getmembers():
            handle = archive.extractfile(member) if member.isfile() else None
            if handle is None:
                continue
            content = handle.read()
            while content.startswith(_GZIP):
                content = gzip.decompress(content)
            logs.append(LogFile(name=f"{name}:{PurePosixPath(member.name).name}", data=content))
    if not logs:
        raise EmptyInputError(f"'{name}' is an archive without files; give a log with at least one job")
    return logs


def _is_binary(start: bytes) -> bool:
    controls = len(start) - len(start.translate(None, _CONTROL))
    return b"\0" in start or controls > _CONTROL_SHARE * max(len(start), 1)
