"""This module says by which keys history is kept, and numbers the keys of jobs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.history_kernel import NO_KEY, UNSEEN
from predictor.features.request import RequestColumns

Key = tuple[str | float | None, ...]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One way to group jobs: jobs with equal values in ``columns`` share a history.

    A job whose ``needs`` column is unknown has no such key.
    """

    name: str
    columns: tuple[str, ...]
    needs: str


KEY_KINDS: tuple[KeyKind, ...] = (
    KeyKind(name="user", columns=("cluster", "identity"), needs="identity"),
    KeyKind(
        name="template",
        columns=("cluster", "identity", "queue", "gpus", "nodes", "cpus", "memory_mib", "walltime_s", "name"),
        needs="identity",
    ),
    KeyKind(name="shape", columns=("cluster", "identity", "gpus", "nodes", "cpus"), needs="identity"),
    KeyKind(name="limit", columns=("cluster", "identity", "walltime_s"), needs="identity"),
    KeyKind(name="name", columns=("cluster", "identity", "name"), needs="name"),
    KeyKind(name="account", columns=("cluster", "account"), needs="account"),
    KeyKind(name="queue", columns=("cluster", "queue"), needs="queue"),
    KeyKind(name="request", columns=("cluster", "queue", "gpus", "nodes", "cpus", "walltime_s"), needs="cpus"),
    KeyKind(name="site", columns=("cluster",), needs="submitted_s"),
)


def kind_index(name: str) -> int:
    """Return the position of a key kind."""
    return [kind.name for kind in KEY_KINDS].index(name)


def _plain(value: object) -> str | float | None:
    if value is None or isinstance(value, str):
        return value
    number = float(value)  # type: ignore[arg-type]  # the columns hold None, text or numbers only
    return None if np.isnan(number) else number


def _codes(requests: RequestColumns, column: str) -> tuple[IntArray, int]:
    codes, uniques = pd.factorize(getattr(requests, column))
    return codes.astype(np.int64) + 1, len(uniques) + 1  # -1 (missing) becomes 0


class KeyNumbers:
    """Numbers keys in order of first appearance; the same key always gets the same number."""

    def __init__(self) -> None:
        self._numbers: tuple[dict[Key, int], ...] = tuple({} for _ in KEY_KINDS)
        self.count = 0

    def number(self, requests: RequestColumns) -> IntArray:
        """Return the key numbers of jobs, shape (n, kinds), NO_KEY where a job has no such key."""
        result = np.empty((len(requests), len(KEY_KINDS)), dtype=np.int64)
        if len(requests) <= 8:  # a handful of jobs: tables cost more than they save
            for row in range(len(requests)):
                for index, kind in enumerate(KEY_KINDS):
                    result[row, index] = self._number_one(requests, row, index, kind)
            return result
        codes = {column: _codes(requests, column) for kind in KEY_KINDS for column in {*kind.columns, kind.needs}}
        for index, kind in enumerate(KEY_KINDS):
            combined = np.zeros(len(requests), dtype=np.int64)
            for column in kind.columns:
                code, size = codes[column]
                combined = pd.factorize(combined * size + code)[0].astype(np.int64)
            combined[codes[kind.needs][0] == 0] = NO_KEY
            groups, first = np.unique(combined, return_index=True)
            translation = np.array(
                [NO_KEY if group < 0 else self._number_one(requests, int(row), index, kind) for group, row in zip(groups, first, strict=True)],
                dtype=np.int64,
            )  # fmt: skip
            result[:, index] = translation[np.searchsorted(groups, combined)]
        return result

    def _number_one(self, requests: RequestColumns, row: int, index: int, kind: KeyKind) -> int:
        if _plain(getattr(requests, kind.needs)[row]) is None:
            return NO_KEY
        key: Key = tuple(_plain(getattr(requests, column)[row]) for column in kind.columns)
        numbers = self._numbers[index]
        known = numbers.get(key)
        if known is None:
            known = self.count
            numbers[key] = known
            self.count += 1
        return known

    def find(self, requests: RequestColumns, row: int) -> IntArray:
        """Return the key numbers of one job without creating any, UNSEEN for keys nobody had before."""
        result = np.full(len(KEY_KINDS), NO_KEY, dtype=np.int64)
        for index, kind in enumerate(KEY_KINDS):
            if _plain(getattr(requests, kind.needs)[row]) is not None:
                key: Key = tuple(_plain(getattr(requests, column)[row]) for column in kind.columns)
                result[index] = self._numbers[index].get(key, UNSEEN)
        return result

    def export(self) -> list[list[list[str | float | None]]]:
        """Return all keys by kind in order of their numbers' first use, ready for JSON."""
        return [[[number, *key] for key, number in numbers.items()] for numbers in self._numbers]

    @classmethod
    def restore(cls, exported: list[list[list[str | float | None]]]) -> "KeyNumbers":
        """Return the numbering that ``export`` wrote."""
        numbers = cls()
        for index, rows in enumerate(exported):
            for row in rows:
                numbers._numbers[index][tuple(row[1:])] = int(row[0])  # type: ignore[arg-type]  # first is the number
        numbers.count = sum(len(rows) for rows in exported)
        return numbers
