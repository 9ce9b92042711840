"""This module reads and writes host lists such as ``gpu[001-064,070],login1``, as Slurm has them."""

import re
from collections.abc import Iterable
from functools import lru_cache

from predictor.errors import ArgumentError

MOST_HOSTS = 1_000_000
_PIECE = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@lru_cache(maxsize=4096)
def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the names of a host list; numbers keep their leading zeros.

    Raises:
        ArgumentError: brackets or ranges are not well formed, or there are too many names.

    Examples:
        >>> expand_hosts("gpu[08-10,12],login1")
        ('gpu08', 'gpu09', 'gpu10', 'gpu12', 'login1')
    """
    pieces = _PIECE.findall(text)
    if ",".join(pieces) != text.strip() or text.count("[") != text.count("]"):
        raise ArgumentError(f"host list '{text[:80]}' is not well formed; write it as gpu[01-08,10],login1")
    names: list[str] = []
    for piece in pieces:
        names += _expand(piece.strip(), text)
        if len(names) > MOST_HOSTS:
            raise ArgumentError(f"host list '{text[:80]}' has more than {MOST_HOSTS} names")
    return tuple(names)


def _expand(piece: str, whole: str) -> list[str]:
    at = piece.find("[")
    if at < 0:
        return [piece]
    end = piece.index("]", at)
    tails = _expand(piece[end + 1 :], whole)
    names: list[str] = []
    for part in piece[at + 1 : end].split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise ArgumentError(f"range '{part}' of host list '{whole[:80]}' is none; write 01-08 or 7")
        first, last = found[1], found[2] or found[1]
        if int(last) < int(first) or int(last) - int(first) > MOST_HOSTS:
            raise ArgumentError(f"range '{part}' of host list '{whole[:80]}' runs backwards or is too long")
        if len(names) + (int(last) - int(first) + 1) * len(tails) > MOST_HOSTS:
            raise ArgumentError(f"host list '{whole[:80]}' has more than {MOST_HOSTS} names")
        for number in range(int(first), int(last) + 1):
            names += [f"{piece[:at]}{number:0{len(first)}d}{tail}" for tail in tails]
    return names


def compress_hosts(names: Iterable[str]) -> str:
    """Return a host list of names, in which runs of numbers become ranges.

    Examples:
        >>> compress_hosts(["gpu08", "gpu09", "gpu10", "login1"])
        'gpu[08-10],login1'
    """
    runs: list[tuple[str, str, int]] = []  # head, first number as written, count
    for name in names:
        found = re.fullmatch(r"(.*?)(\d+)", name)
        if found is None:
            runs.append((name, "", 1))
            continue
        head, digits = found[1], found[2]
        if runs:
            before, first, count = runs[-1]
            wanted = f"{int(first) + count:0{len(first)}d}" if first else ""
            if before == head and digits == wanted and len(digits) == len(first):
                runs[-1] = (before, first, count + 1)
                continue
        runs.append((head, digits, 1))
    return ",".join(_joined(runs))


def _joined(runs: list[tuple[str, str, int]]) -> list[str]:
    pieces: list[str] = []
    ranges: list[str] = []
    for place, (head, first, count) in enumerate(runs):
        if not first:
            pieces.append(head)
            continue
        last = f"{int(first) + count - 1:0{len(first)}d}"
        ranges.append(first if count == 1 else f"{first}-{last}")
        follows = runs[place + 1] if place + 1 < len(runs) else ("", "", 0)
        if follows[0] == head and follows[1]:
            continue
        alone = len(ranges) == 1 and "-" not in ranges[0]
        pieces.append(head + (ranges[0] if alone else f"[{','.join(ranges)}]"))
        ranges = []
    return pieces
