"""This module groups job names that differ only in run numbers, seeds, dates and hashes."""

import re
from functools import lru_cache

_HEX = re.compile(r"(?<![a-z])(?=[0-9a-f]*\d)[0-9a-f]{6,}(?![a-z])")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_SEPARATORS = re.compile(r"[\s_\-./:,;=|()\[\]{}]+")
_REPEAT = re.compile(r"(#)(?: #)+")
MAX_NAME = 256


@lru_cache(maxsize=65536)
def name_group(name: str) -> str:
    """Return the skeleton of a job name: lower case, numbers and hashes replaced by ``#``.

    Row-wise and stateless, so that a name means the same in training and in serving.

    Examples:
        >>> name_group("train_llama_0012"), name_group("Train-Llama-seed7-lr3e-4")
        ('train llama #', 'train llama seed# lr#')
    """
    text = name[:MAX_NAME].lower()
    text = _HEX.sub("#", text)
    text = _NUMBER.sub("#", text)
    text = _SEPARATORS.sub(" ", text).strip()
    return _REPEAT.sub(r"\1", text)
