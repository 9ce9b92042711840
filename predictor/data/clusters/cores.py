"""This module reads and writes lists of CPU cores such as ``0-15,32-47``."""

import re

from predictor.errors import ArgumentError

_MOST_CORES = 4096


def read_cores(text: str, what: str = "cores") -> tuple[int, ...]:
    """Return the cores (or other numbered things) of a list, ascending; "" = none.

    Args:
        what: what is numbered, for the error.

    Raises:
        ArgumentError: it is no list of cores.

    Examples:
        >>> read_cores("0-2,8")
        (0, 1, 2, 8)
    """
    cores: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first or last >= _MOST_CORES:
            raise ArgumentError(f"{what} '{part[:40]}' cannot be read; write them as 0-15,32-47")
        cores.update(range(first, last + 1))
    return tuple(sorted(cores))


def format_cores(cores: tuple[int, ...]) -> str:
    """Return a list of cores in short.

    Examples:
        >>> format_cores((0, 1, 2, 8))
        '0-2,8'
    """
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
