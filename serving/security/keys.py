"""This module makes and recognises API keys.

A key is ``prk_<id>_<secret>``: the id finds its row, the secret holds 256 random bits. Only the SHA-256 of
the whole is kept. A slow hash such as scrypt protects secrets that people choose and others can guess;
nobody guesses 256 bits, and a slow hash would cost each request more than its forecast.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from predictor.errors import ArgumentError

PREDICT, SUBMIT, OUTCOME, ADMIN = "predict", "submit", "outcome", "admin"
SCOPES = (PREDICT, SUBMIT, OUTCOME, ADMIN)
_PREFIX = "prk"
_LONGEST = 200  # characters of a token; longer ones are not even hashed


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is kept: not the token, but its digest.

    Attributes:
        scopes: what it allows; ``admin`` allows everything.
        expires_s, revoked_s: from when on it is no longer taken, UTC epoch seconds; None = never.
    """

    key_id: str
    name: str
    scopes: frozenset[str]
    digest: str
    created_s: float
    expires_s: float | None = None
    revoked_s: float | None = None

    def is_active(self, now_s: float) -> bool:
        """Whether the key is taken now."""
        return all(end is None or now_s < end for end in (self.expires_s, self.revoked_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a request may do, and in whose name; actor "" = nobody is known by name."""

    actor: str
    scopes: frozenset[str]

    def allows(self, scope: str) -> bool:
        """Whether the scope is granted."""
        return scope in self.scopes or ADMIN in self.scopes


EVERYTHING = Grant(actor="", scopes=frozenset(SCOPES))


class KeySource(Protocol):
    """Where keys are kept."""

    def read_keys(self) -> Sequence[ApiKey]:
        """Return all keys, those that ended too."""


_LONGEST_LIFE_S = 100 * 366 * 86_400.0


def make_key(
    name: str, scopes: Iterable[str], *, now_s: float, lives_s: float | None = None
) -> tuple[ApiKey, str]:
    """Return a new key and its token, which is shown once and kept nowhere.

    Raises:
        ArgumentError: an unknown scope, no scope, or an empty name.
    """
    wanted = frozenset(scopes)
    faults = [f"scope '{scope}' is unknown; known are {', '.join(SCOPES)}" for scope in wanted - {*SCOPES}]
    if not wanted:
        faults.append(f"a key needs a scope, one or more of {', '.join(SCOPES)}")
    if not name.strip() or len(name) > 100:
        faults.append("a key needs a name of 1 to 100 characters, such as that of the program that holds it")
    if lives_s is not None and not lives_s > 0:
        faults.append(f"a life of {lives_s:g} s is over already")
    if lives_s is not None and lives_s > _LONGEST_LIFE_S:
        faults.append(f"a life of {lives_s:g} s is too long; a key without an end is made by giving none")
    if faults:
        raise ArgumentError("the key cannot be made", faults=sorted(faults))
    key_id = secrets.token_hex(5)
    token = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    key = ApiKey(
        key_id=key_id, name=name.strip(), scopes=wanted, digest=digest_of(token), created_s=now_s,
        expires_s=None if lives_s is None else now_s + lives_s,
    )  # fmt: skip
    return key, token


def digest_of(token: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class KeyRing:
    """The keys in memory, so that recognising one costs microseconds; ``refresh`` reads them anew."""

    def __init__(self, source: KeySource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._keys: dict[str, ApiKey] = {}
        self._grants: dict[str, Grant] = {}

    def refresh(self) -> None:
        """Take up new keys and let go of revoked ones; may block."""
        keys = {key.key_id: key for key in self._source.read_keys()}
        self._grants = {key_id: Grant(actor=key_id, scopes=key.scopes) for key_id, key in keys.items()}
        self._keys = keys

    def is_empty(self) -> bool:
        """Whether no key is taken at present."""
        now_s = self._clock()
        return not any(key.is_active(now_s) for key in self._keys.values())

    def find(self, token: str) -> Grant | None:
        """Return what the token grants, None = it is not taken."""
        if len(token) > _LONGEST:
            return None
        parts = token.split("_", 2)
        key = self._keys.get(parts[1]) if len(parts) == 3 else None
        # an unknown id is compared as well, so that the time tells nothing
        expected = key.digest if key is not None else "0" * 64
        same = hmac.compare_digest(digest_of(token), expected)
        if key is None or not same or not key.is_active(self._clock()):
            return None
        return self._grants[key.key_id]
