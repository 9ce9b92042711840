"""This module compares names of models and GPUs as people write them."""

import difflib
import re
from collections.abc import Iterable

_BREAK = re.compile(r"[^a-z0-9]+")
_SIZE = re.compile(r"(?<![a-z0-9])(?:(?P<experts>\d+)x)?(?P<size>\d+(?:[.p_]\d+)?)(?P<unit>[bm])(?![a-z0-9])")
_UNITS = {"b": 1e9, "m": 1e6}


def plain(name: str) -> str:
    """Return a name in lower case, its words and numbers joined by dashes.

    Examples:
        >>> plain("meta-llama/Meta_Llama-3.1-8B")
        'meta-llama-meta-llama-3-1-8b'
    """
    return _BREAK.sub("-", name.lower()).strip("-")


def words_of(name: str) -> list[str]:
    """Return the words of a plain name."""
    return [word for word in plain(name).split("-") if word]


def position(inner: list[str], outer: list[str]) -> int | None:
    """Return where the words of one name stand in another, in one piece; None if they do not."""
    for start in range(len(outer) - len(inner), -1, -1):
        if outer[start : start + len(inner)] == inner:
            return start
    return None


def stated_size(name: str) -> tuple[float, int] | None:
    """Return parameters and experts that a name states (``7b``, ``8x7B``, ``350M``); None without one.

    Examples:
        >>> stated_size("my-model-1.5b-sft"), stated_size("moe-8x7b"), stated_size("gpt")
        ((1500000000.0, 0), (7000000000.0, 8), None)
    """
    found = list(_SIZE.finditer(name.lower()))
    if not found:
        return None
    best = max(found, key=lambda match: _UNITS[match["unit"]])
    count = float(best["size"].replace("p", ".").replace("_", ".")) * _UNITS[best["unit"]]
    return (count, int(best["experts"] or 0)) if count > 0 else None


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return known names that look like a wrong one."""
    return difflib.get_close_matches(plain(name), list(known), n=5, cutoff=0.5)
