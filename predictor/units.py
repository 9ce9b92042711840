"""This module parses and prints the field's durations and sizes."""

import math
import re

from predictor.errors import ArgumentError

_CLOCK = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2}(?:\.\d+)?)")
_COMPACT = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>[smhdw])")
_SIZE = re.compile(r"(?P<value>\d+(?:\.\d+)?)(?P<unit>[KMGTPE]?)(?:i?B)?", re.IGNORECASE)
_UNIT_MIB = {"": 1.0, "K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30, "E": 2.0**40}
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def parse_clock_s(text: str) -> float:
    """Parse Slurm's elapsed clock ``[D-]HH:MM:SS``, ``MM:SS[.mmm]`` or ``D-HH`` into seconds.

    Raises:
        ArgumentError: the text is no clock.

    Examples:
        >>> parse_clock_s("1-02:03:04"), parse_clock_s("01:07.402")
        (93784.0, 67.402)
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(f"'{text}' is not a duration; write [D-]HH:MM:SS or MM:SS.mmm")
    parts = [float(part) for part in match["clock"].split(":")]
    days = float(match["days"] or 0)
    if match["days"] is not None:  # D-HH[:MM[:SS]] counts from hours downwards
        parts += [0.0] * (3 - len(parts))
    while len(parts) < 3:
        parts.insert(0, 0.0)
    hours, minutes, secs = parts
    return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + secs


def parse_span_s(text: str) -> float:
    """Parse ``7d``, ``12h``, ``90m``, ``30s``, ``2w`` into seconds.

    Raises:
        ArgumentError: the text is no span, or not above zero.

    Examples:
        >>> parse_span_s("7d")
        604800.0
    """
    match = _COMPACT.fullmatch(text.strip().lower())
    if match is None or float(match["value"]) <= 0:
        raise ArgumentError(
            f"'{text}' is not a span of time; write a number and one of s, m, h, d, w, such as 7d"
        )
    return float(match["value"]) * _UNIT_S[match["unit"]]


def parse_size_mib(text: str, *, bare_unit: str = "M") -> float:
    """Parse a size with a binary suffix (``4G``, ``62.50G``, ``4468K``, ``1TiB``) into MiB.

    Args:
        bare_unit: the suffix to assume where there is none; ``B`` reads bare numbers as bytes.

    Raises:
        ArgumentError: the text is no size.

    Examples:
        >>> parse_size_mib("62.50G"), parse_size_mib("4096K"), parse_size_mib("1048576", bare_unit="B")
        (64000.0, 4.0, 1.0)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ArgumentError(f"'{text}' is not a size; write a number and one of K, M, G, T, P, such as 16G")
    unit = match["unit"].upper()
    if not unit and bare_unit == "B":
        return float(match["value"]) / 2.0**20
    return float(match["value"]) * _UNIT_MIB[unit or bare_unit]


def format_duration(duration_s: float) -> str:
    """Print seconds for people: ``45s``, ``12m``, ``3h 20m``, ``2d 4h``.

    Examples:
        >>> format_duration(12000.0)
        '3h 20m'
    """
    if math.isnan(duration_s):
        return "-"
    if math.isinf(duration_s):
        return "unlimited"
    whole = round(duration_s)
    if whole < 60:
        return f"{whole}s"
    minutes = round(duration_s / 60)
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minutes}m" if minutes else f"{hours}h"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours}h" if hours else f"{days}d"
