"""This module knows under which keys programs take what matters for memory, and reads their values."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

_FALSE = frozenset(("false", "0", "no", "off", "n", "f", "none", "null", ""))
_TIMES = {"k": 1024, "m": 1024**2}


@lru_cache(maxsize=1)
def known_keys() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return facts and the keys that programs take them under, most telling key first."""
    text = (resources.files("predictor.forecasting.memory") / "cards" / "keys.toml").read_text("utf-8")
    return tuple((what, tuple(keys)) for what, keys in tomllib.loads(text)["keys"].items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a submission says, by what it means instead of by key.

    Attributes:
        texts: what -> text, as given.
        program: all words that are no settings, in lower case.
        unreadable: settings whose value could not be read, as ``key=value``.
    """

    texts: Mapping[str, str]
    program: str
    unreadable: list[str]

    def text(self, what: str) -> str:
        """Return the text of a fact in lower case, empty without one."""
        return self.texts.get(what, "").lower()

    def flag(self, what: str) -> bool | None:
        """Return whether a switch is on, None if nothing is said; other texts mean that it is on."""
        if what not in self.texts:
            return None
        return self.text(what) not in _FALSE

    def count(self, what: str) -> int | None:
        """Return a whole number; None if nothing is said or it cannot be read (which is noted)."""
        number = self.number(what)
        if number is None:
            return None
        if number != int(number) or not 1 <= number <= 1e9:
            self.unreadable.append(f"{what}={self.texts[what]}")
            return None
        return int(number)

    def number(self, what: str) -> float | None:
        """Return a number; ``8k`` counts in 1024."""
        if what not in self.texts:
            return None
        text = self.text(what)
        if text in ("auto", "none", "null", ""):
            return None
        found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)([km]?)", text)
        value = float(found[1]) * _TIMES.get(found[2], 1) if found else math.nan
        if not math.isfinite(value):
            self.unreadable.append(f"{what}={self.texts[what]}")
            return None
        return value


def gather(values: Mapping[str, str], words: list[str]) -> Facts:
    """Return facts out of settings; of several keys for one fact the first in the list wins."""
    texts = {}
    for what, keys in known_keys():
        for key in keys:
            if key in values and values[key] != "":
                texts[what] = values[key]
                break
    return Facts(texts=texts, program=" ".join(words).lower(), unreadable=[])
