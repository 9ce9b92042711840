"""This module replaces the names of users and accounts by keyed hashes, the same token for the same name.

A token is ``~`` and 32 hexadecimal digits: the first half of HMAC-SHA-256 (RFC 2104) of the name under a key
of the site. Who lacks the key cannot tell the name, not even by trying all names; who has it finds a name's
token at once. What looks like a token already stays, so that hiding twice is hiding once.
"""

import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from predictor.errors import ArgumentError

LEAST_KEY_BYTES = 32
_TOKEN = re.compile(r"~[0-9a-f]{32}")
_TEXTS = ("job_name", "submit_line", "work_dir")  # columns in which the names of their own row may occur


@dataclass(frozen=True, slots=True, kw_only=True)
class Pseudonyms:
    """Makes tokens under one key, of at least 32 bytes."""

    key: bytes = field(repr=False)

    def token(self, name: str) -> str:
        """Return the token of a name; of a path such as ``physics/lab3``, one for each of its parts."""
        return "/".join(self._part(part) for part in name.split("/"))

    def within(self, text: str, *names: str | None) -> str:
        """Return a text in which each of the names, where no letter or digit adjoins it, is its token."""
        parts = {part for name in names if name for part in name.split("/") if part}
        for part in sorted(parts, key=len, reverse=True):
            token = self._part(part)
            text = re.sub(rf"(?<![^\W_])(?<!~){re.escape(part)}(?![^\W_])", token, text)
        return text

    def _part(self, part: str) -> str:
        if not part or _TOKEN.fullmatch(part):
            return part
        return "~" + hmac.digest(self.key, part.encode(), "sha256").hex()[:32]


def read_names_key(path: Path) -> Pseudonyms:
    """Read the key of a site: the bytes of a file without the line feed at its end.

    Raises:
        ArgumentError: it cannot be read, or is too short to withstand guessing.
    """
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ArgumentError(f"the names key '{path}' cannot be read: {error.strerror}") from error
    if len(key) < LEAST_KEY_BYTES:
        raise ArgumentError(
            f"the names key '{path}' has {len(key)} bytes; it needs {LEAST_KEY_BYTES} random ones, such as "
            f"'openssl rand -hex 32' prints"
        )
    return Pseudonyms(key=key)


def hide_names(frame: pd.DataFrame, names: Pseudonyms) -> pd.DataFrame:
    """Return rows of the job table with tokens in place of the names of their users and accounts.

    The names of its own user and account are replaced in a job's name, submit line and directory too.
    """
    hidden = frame.copy()
    for column in ("user", "account"):
        known = {name: names.token(str(name)) for name in frame[column].dropna().unique()}
        hidden[column] = frame[column].map(known).astype(frame[column].dtype)
    for column in _TEXTS:
        texts = [
            text if pd.isna(text) else names.within(str(text), _name(user), _name(account))
            for text, user, account in zip(frame[column], frame["user"], frame["account"], strict=True)
        ]
        hidden[column] = pd.Series(texts, index=frame.index, dtype=frame[column].dtype)
    return hidden


def _name(value: object) -> str | None:
    return value if isinstance(value, str) else None
