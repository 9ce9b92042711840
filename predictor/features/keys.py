"""This module says by which keys history is kept, and numbers the keys of jobs.

All keys but one are read off the request. The last, ``place``, is the template together with the job's place
in a sweep: whoever runs the same sweep again tends to submit it in the same order, so that the n-th job of
this run lasts as long as the n-th of the one before, where the template as a whole says little. (In the
RICC log one user sends the same 168 jobs several hundred times.)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.features.history_kernel import NO_KEY, UNSEEN
from predictor.features.request import KEY_NUMBERS, NUMBERS, TEXTS, RequestColumns, Row

Key = Row
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One way to group jobs: jobs with equal values in ``columns`` share a history.

    A job whose ``needs`` column is unknown has no such key.
    """

    name: str
    columns: tuple[str, ...]
    needs: str


REQUEST_KINDS: tuple[KeyKind, ...] = (
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
    KeyKind(
        name="request", columns=("cluster", "queue", "gpus", "nodes", "cpus", "walltime_s"), needs="cpus"
    ),
    KeyKind(name="site", columns=("cluster",), needs="submitted_s"),
)
KEY_KINDS: tuple[KeyKind, ...] = (
    *REQUEST_KINDS,
    KeyKind(name="place", columns=("template", "place"), needs="template"),
)
PLACES = 512  # later jobs of a sweep have no place: keys are memory, and so long a sweep fills the others


def kind_index(name: str) -> int:
    """Return the position of a key kind."""
    return [kind.name for kind in KEY_KINDS].index(name)


_COLUMNS = (*TEXTS, *NUMBERS[:KEY_NUMBERS])
_NEEDS: tuple[int, ...] = tuple(_COLUMNS.index(kind.needs) for kind in REQUEST_KINDS)


def _picker(columns: tuple[str, ...]) -> Callable[[Key], Key]:
    """Return what picks a kind's columns out of a row."""
    places = [_COLUMNS.index(column) for column in columns]
    if len(places) == 1:  # itemgetter of a slice keeps the tuple
        return cast(Callable[[Key], Key], itemgetter(slice(places[0], places[0] + 1)))
    return cast(Callable[[Key], Key], itemgetter(*places))


_PICKERS = tuple(_picker(kind.columns) for kind in REQUEST_KINDS)
_TEMPLATE, _PLACE = kind_index("template"), kind_index("place")


def _rows(requests: RequestColumns) -> Iterable[Row]:
    """Return the values of each job, ordered as _COLUMNS, None where nothing is known."""
    if requests.rows is not None:
        return requests.rows
    numbers = requests.numbers[:KEY_NUMBERS].tolist()
    return zip(
        *requests.texts.tolist(),
        *([None if value != value else value for value in column] for column in numbers),  # noqa: PLR0124  # NaN
        strict=True,
    )


def _codes(requests: RequestColumns, column: str) -> tuple[IntArray, int]:
    values = requests.text(column) if column in TEXTS else requests.number(column)
    codes, uniques = pd.factorize(values)
    return codes.astype(np.int64) + 1, len(uniques) + 1  # -1 (missing) becomes 0


def _place_keys(numbers: IntArray, places: IntArray) -> Iterator[Key | None]:
    """Yield the key of each job's place; the first of a row has none, since it is no sweep yet."""
    for template, place in zip(numbers[:, _TEMPLATE].tolist(), places.tolist(), strict=True):
        yield (template, place) if template != NO_KEY and 0 < place < PLACES else None


class KeyNumbers:
    """Numbers keys in order of first appearance; the same key always gets the same number."""

    def __init__(self) -> None:
        self._numbers: tuple[dict[Key, int], ...] = tuple({} for _ in KEY_KINDS)
        self.count = 0
        self._finders = tuple(zip(_NEEDS, _PICKERS, self._numbers[: len(REQUEST_KINDS)], strict=True))

    def number(self, requests: RequestColumns) -> IntArray:
        """Return the key numbers of jobs, shape (n, kinds), NO_KEY where a job has no such key.

        The column of places stays empty, see ``number_places``.
        """
        if len(requests) <= 8:  # a handful of jobs: tables cost more than they save
            each = [self._number_row(row) for row in _rows(requests)]
            return np.array(each, dtype=np.int64).reshape(len(requests), len(KEY_KINDS))
        result = np.full((len(requests), len(KEY_KINDS)), NO_KEY, dtype=np.int64)
        codes = {
            column: _codes(requests, column)
            for kind in REQUEST_KINDS
            for column in {*kind.columns, kind.needs}
        }
        for index, kind in enumerate(REQUEST_KINDS):
            combined = np.zeros(len(requests), dtype=np.int64)
            for column in kind.columns:
                code, size = codes[column]
                combined = pd.factorize(combined * size + code)[0].astype(np.int64)
            combined[codes[kind.needs][0] == 0] = NO_KEY
            groups, first = np.unique(combined, return_index=True)
            samples = RequestColumns(texts=requests.texts[:, first], numbers=requests.numbers[:, first])
            translation = np.array([self._number_one(row, index) for row in _rows(samples)], dtype=np.int64)
            result[:, index] = translation[np.searchsorted(groups, combined)]
        return result

    def _number_one(self, row: Key, index: int) -> int:
        if row[_NEEDS[index]] is None:
            return NO_KEY
        return self._number_key(_PICKERS[index](row), index)

    def _number_key(self, key: Key, index: int) -> int:
        numbers = self._numbers[index]
        known = numbers.get(key)
        if known is None:
            known = self.count
            numbers[key] = known
            self.count += 1
        return known

    def _number_row(self, row: Key) -> list[int]:
        return [*(self._number_one(row, index) for index in range(len(REQUEST_KINDS))), NO_KEY]

    def number_places(self, numbers: IntArray, places: IntArray) -> None:
        """Number the places of jobs in their sweeps.

        Args:
            numbers: shape (n, kinds), the other keys; the column of places is written.
            places: shape (n,), the how-many-eth job of its sweep each is, from 0 on.
        """
        numbers[:, _PLACE] = [
            NO_KEY if key is None else self._number_key(key, _PLACE) for key in _place_keys(numbers, places)
        ]

    def find_places(self, numbers: IntArray, places: IntArray) -> None:
        """Find the places of jobs in their sweeps without creating any; the twin of ``number_places``.

        The column of places is NO_KEY until then.
        """
        known = self._numbers[_PLACE]
        for row, key in enumerate(_place_keys(numbers, places)):
            if key is not None:
                numbers[row, _PLACE] = known.get(key, UNSEEN)

    def find(self, requests: RequestColumns) -> IntArray:
        """Return the key numbers of jobs without creating any, UNSEEN for keys nobody had before.

        The column of places stays empty, see ``find_places``.

        Returns:
            shape (n, kinds).
        """
        found = [
            [
                NO_KEY if row[needs] is None else numbers.get(pick(row), UNSEEN)
                for needs, pick, numbers in self._finders
            ]
            for row in _rows(requests)
        ]
        out = np.full((len(found), len(KEY_KINDS)), NO_KEY, dtype=np.int64)
        if found:
            out[:, : len(REQUEST_KINDS)] = found
        return out

    def renumber(self, moved: IntArray) -> None:
        """Give all keys other numbers, and forget those whose number becomes -1.

        Args:
            moved: the new number of each, ascending where they stay.
        """
        new = moved.tolist()
        for kind, numbers in enumerate(self._numbers):
            kept = [(key, new[number]) for key, number in numbers.items() if new[number] >= 0]
            if kind == _PLACE:  # its keys name the numbers of templates
                kept = [((new[cast(int, key[0])], key[1]), number) for key, number in kept]
            numbers.clear()
            numbers.update(kept)
        self.count = sum(len(numbers) for numbers in self._numbers)

    def clusters(self) -> frozenset[str | float | None]:
        """Return the clusters that have a history; None stands for jobs that named none."""
        return frozenset(key[0] for key in self._numbers[kind_index("site")])

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
