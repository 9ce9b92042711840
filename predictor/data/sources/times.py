"""This module turns the times that logs write into UTC."""

from dataclasses import dataclass
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pandas as pd

from predictor.errors import ArgumentError

ABSENT_TEXTS = ("", "Unknown", "None", "NONE", "NULL", "null", "N/A", "NaN", "nan", "-")
ABSENT = (*ABSENT_TEXTS, "0", "4294967294", "4294967295")  # unset, NO_VAL and INFINITE of Slurm
UTC_DTYPE: Literal["datetime64[us, UTC]"] = "datetime64[us, UTC]"
_EPOCH = r"-?\d+(?:\.\d+)?"
_OFFSET = r"(?:Z|:\d\d(?:[.,]\d+)?\s*[+-]\d{1,2}(?::?\d\d)?)$"
_NO_VALUES = (0.0, 4294967294.0, 4294967295.0)  # unset, and Slurm's NO_VAL and INFINITE
_MILLISECONDS_FROM = 1e11  # epoch seconds of the year 5138: larger numbers are milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTimes:
    """Times of one column.

    Attributes:
        utc: times, missing where absent or unreadable.
        unreadable: shape (n,), True where there is a text that is no time.
        ambiguous: count of local times that the autumn clock change repeats; the earlier one is taken.
        later: the same times with the later reading of those that are ambiguous.
        nonexistent: count of local times that the spring clock change skips; moved to its end.
    """

    utc: "pd.Series[pd.Timestamp]"
    later: "pd.Series[pd.Timestamp]"
    unreadable: npt.NDArray[np.bool_]
    ambiguous: int = 0
    nonexistent: int = 0


def parse_zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name.

    Raises:
        ArgumentError: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ArgumentError(
            f"'{name}' is no time zone; give an IANA name such as Europe/Berlin or UTC"
        ) from error


def parse_times(texts: "pd.Series[str]", zone: str) -> ParsedTimes:
    """Parse epoch numbers, ISO times with offset and ISO times without, which are taken to be of ``zone``.

    The three may be mixed within one column; an offset in the text wins over ``zone``.
    """
    codes, distinct = pd.factorize(texts.str.strip().fillna(""))
    parsed = _parse_distinct(pd.Series(distinct, dtype="str"), parse_zone(zone))
    counts = np.bincount(codes, minlength=len(distinct))
    return ParsedTimes(
        utc=parsed.utc.take(codes).reset_index(drop=True),
        later=parsed.later.take(codes).reset_index(drop=True),
        unreadable=parsed.unreadable[codes],
        ambiguous=int(counts[parsed.ambiguous].sum()),
        nonexistent=int(counts[parsed.nonexistent].sum()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Distinct:
    utc: "pd.Series[pd.Timestamp]"
    later: "pd.Series[pd.Timestamp]"
    unreadable: npt.NDArray[np.bool_]
    ambiguous: npt.NDArray[np.bool_]
    nonexistent: npt.NDArray[np.bool_]


def _parse_distinct(texts: "pd.Series[str]", zone: ZoneInfo) -> _Distinct:
    size = len(texts)
    utc = pd.Series(pd.NaT, index=texts.index, dtype=UTC_DTYPE)
    ambiguous, nonexistent = np.zeros(size, dtype=np.bool_), np.zeros(size, dtype=np.bool_)
    absent = texts.isin(ABSENT).to_numpy(dtype=np.bool_)
    epoch = texts.str.fullmatch(_EPOCH).to_numpy(dtype=np.bool_) & ~absent
    with_offset = texts.str.contains(_OFFSET).to_numpy(dtype=np.bool_) & ~epoch & ~absent
    naive = ~(absent | epoch | with_offset)
    if epoch.any():
        utc[epoch] = from_epoch(texts[epoch].astype("float64"))
    if with_offset.any():
        utc.loc[with_offset] = pd.to_datetime(
            texts[with_offset], utc=True, errors="coerce", format="ISO8601"
        ).astype(UTC_DTYPE)  # fmt: skip
    later = utc.copy()
    if naive.any():
        local = pd.to_datetime(texts[naive], utc=True, errors="coerce", format="ISO8601")
        local = local.dt.tz_localize(None).astype("datetime64[us]")
        if zone.key == "UTC":
            utc[naive] = later[naive] = local.dt.tz_localize("UTC")
        else:
            first = np.ones(len(local), dtype=np.bool_)
            strict = local.dt.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward")
            gapless = local.dt.tz_localize(zone, ambiguous=first, nonexistent="NaT")
            ambiguous[naive] = (strict.isna() & local.notna()).to_numpy()
            nonexistent[naive] = (gapless.isna() & local.notna()).to_numpy()
            for column, reading in ((utc, first), (later, ~first)):
                chosen = local.dt.tz_localize(zone, ambiguous=reading, nonexistent="shift_forward")
                column[naive] = chosen.dt.tz_convert("UTC")
    unreadable = utc.isna().to_numpy() & ~absent
    return _Distinct(
        utc=utc, later=later, unreadable=unreadable, ambiguous=ambiguous, nonexistent=nonexistent
    )


def from_epoch(values: "pd.Series[float]") -> "pd.Series[pd.Timestamp]":
    """Turn epoch seconds or milliseconds into UTC; zero, NO_VAL and what no calendar has are missing."""
    numbers = values.to_numpy(dtype=np.float64)
    scaled = np.where(np.abs(numbers) >= _MILLISECONDS_FROM, numbers / 1e3, numbers)
    usable = np.isfinite(scaled) & (np.abs(scaled) < _MILLISECONDS_FROM) & ~np.isin(scaled, _NO_VALUES)
    micros = np.round(np.where(usable, scaled, 0.0) * 1e6).astype("int64")
    utc = pd.Series(micros.astype("datetime64[us]"), index=values.index).dt.tz_localize("UTC")
    return utc.where(usable)
