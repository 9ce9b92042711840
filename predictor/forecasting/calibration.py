"""This module keeps stated probabilities true: one-sided conformal calibration, updated online.

For each outcome it looks at where the duration fell in the forecast that was made for it (its probability
integral transform, PIT). The calibrated quantile at p is the raw quantile at the level below which a share
p of recent outcomes fell; each bound is one-sided (P(duration <= q_p) = p), as planning needs. This is
distributional conformal prediction (Chernozhukov, Wuethrich, Zhu 2021) with weights that fade with time,
as in nonexchangeable conformal prediction (Barber et al. 2023), and it differs from it in three ways:

- Jobs that still run count too, as known to fall above the PIT of their age. Short jobs report first, so
  that ended jobs alone would say that everything is short. Weights fade by the *start*, by which a job that
  ended and its neighbour that still runs weigh the same.
- How far a correction goes depends on how many submitters stand behind it, not on how many jobs: the
  jobs of one submitter share one cause (hierarchical data, as in Dunn, Wasserman, Ramdas 2023).
- Corrections are nested: of all jobs, of jobs whose forecast is about as long, and of the submitter, who is
  corrected for what the others leave, so that no miss is corrected twice.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from predictor.contracts.forecast import LEVELS
from predictor.forecasting.pit_evidence import Evidence, PitReadings
from predictor.forecasting.pit_levels import (
    EDGES,
    PIT_BINS,
    UNIFORM,
    bins_of,
    cdf_at_each,
    effective_count,
    read_levels,
    shrunk_cdf,
    spread_over,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MIDDLE_UNTIL, BOUNDS_FROM = 0.5, 0.8  # between these levels the two readings are blended
LENGTH_EDGES_LOG_S = np.log([60.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0])
LENGTH_GROUPS = 20
REFRESH_S = 3 * 3600.0
_WANTED = np.array(LEVELS)
_BOUND_SHARE = np.clip((_WANTED - MIDDLE_UNTIL) / (BOUNDS_FROM - MIDDLE_UNTIL), 0.0, 1.0)
_LIVES_PER_EPOCH = 30.0  # half-lives until weights are stated relative to a later moment
_LIVES_AHEAD = 300.0  # beyond which a moment was not of this world: a clock that ran ahead is no evidence
_FORGOTTEN = 1e-3
_NOBODY = "\x00"  # begins the names that no submitter has


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationSettings:
    """How fast calibration learns and forgets.

    Attributes:
        prior_submitters: submitters that the belief "already calibrated" is worth.
        length_submitters: submitters that the calibration of all jobs is worth among jobs of one length.
        own_bursts: bursts that the belief "as the others" is worth for a single submitter.
        burst_s: what a submitter submits within this time is one burst.
        half_life_s: a job counts half this long after its start.
        middle_share: how much of the correction of the middle is applied.
    """

    prior_submitters: float = 10.0
    length_submitters: float = 5.0
    own_bursts: float = 10.0
    half_life_s: float = 3 * 86400.0
    middle_share: float = 0.5
    burst_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMap:
    """What is read until the next refresh.

    Attributes:
        bounds, middles: shape (groups, B), distribution functions of PITs.
        own: shape (S, B), those of single submitters after the correction of their group.
    """

    bounds: FloatArray
    middles: FloatArray
    own: FloatArray


@dataclass(slots=True)
class Calibration:
    """The state of the calibration.

    Attributes:
        length_edges_log_s: ascending, log seconds; the groups of forecasts of like length.
        outcomes: how many were learned.
        epoch_s: moment that the weights are stated for.
        refreshed_s: when the map was made, -inf = never.
        names: number of each submitter.
    """

    settings: CalibrationSettings = field(default_factory=CalibrationSettings)
    length_edges_log_s: FloatArray = field(default_factory=LENGTH_EDGES_LOG_S.copy)
    evidence: Evidence | None = None
    names: dict[str, int] = field(default_factory=dict)
    outcomes: int = 0
    epoch_s: float = -math.inf
    refreshed_s: float = -math.inf
    _refreshed_at: int = 0  # outcomes
    _map: LevelMap | None = None

    def group_lengths(self, length_log_s: FloatArray) -> None:
        """Cut forecasts of like length anew, equally many in each group; only before the first outcome.

        Args:
            length_log_s: shape (n,), raw forecast medians, log seconds.
        """
        shares = np.arange(1, LENGTH_GROUPS) / LENGTH_GROUPS
        self.length_edges_log_s = np.unique(np.quantile(length_log_s, shares))
        self.evidence = None

    def raw_levels(self, length_log_s: FloatArray, identity: npt.NDArray[np.object_]) -> FloatArray:
        """Return the raw levels to read for LEVELS, shape (n, L), ascending along a row.

        Args:
            length_log_s: shape (n,), raw forecast medians, log seconds.
            identity: shape (n,), submitters.
        """
        out = np.empty((len(length_log_s), len(_WANTED)))
        if self._map is None:
            out[:] = _WANTED
            return out
        known = np.array([self.names.get(who, -1) for who in identity.tolist()], dtype=np.int64)
        read_levels(
            self._map.bounds, self._map.middles, self._map.own, self.length_edges_log_s, length_log_s, known,
            EDGES, _WANTED, self.settings.middle_share, _BOUND_SHARE, out,
        )  # fmt: skip
        return out

    def learn(self, readings: PitReadings) -> None:
        """Take in outcomes; they change forecasts from the next refresh on."""
        if len(readings.below):
            if self.evidence is None:
                self.evidence = Evidence.empty(len(self.length_edges_log_s) + 2)
            self._move_epoch(float(readings.start_s.max()))
            self._add(self.evidence, readings)
            self.outcomes += len(readings.below)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to refresh: every few hours, and whenever outcomes have doubled."""
        return self.outcomes > 0 and (
            abs(now_s - self.refreshed_s) >= REFRESH_S or self.outcomes >= 2 * self._refreshed_at
        )

    def refresh(self, now_s: float, running: PitReadings | None = None, share: float = 1.0) -> None:
        """Work out what is read from now on.

        Args:
            now_s: UTC epoch seconds.
            running: jobs that run now, with the PIT of their age.
            share: how many of all running jobs these are.
        """
        self.refreshed_s, self._refreshed_at = now_s, self.outcomes
        if self.evidence is None:
            return
        seen = self.evidence
        if running is not None and len(running.below):
            seen = seen.copy()
            self._add(seen, running, 1.0 / share)
        now = float(self._faded(now_s, self.epoch_s))
        count = effective_count(seen.submitters.sum(axis=1), (seen.submitters**2).sum(axis=1))
        groups = len(seen.ended)
        bounds, middles = np.empty((groups, PIT_BINS)), np.empty((groups, PIT_BINS))
        for group in range(groups):
            worth = self.settings.length_submitters if group else self.settings.prior_submitters
            for ended, out in ((seen.ended, bounds), (seen.spread, middles)):
                prior = out[0] if group else UNIFORM
                shrunk_cdf(
                    ended[group] * now, seen.censored[group] * now, count[group], worth, prior, out[group]
                )
        own = np.empty((len(seen.own_total), PIT_BINS))
        own_count = effective_count(seen.own_total, seen.own_squares)
        for who in range(len(own)):
            shrunk_cdf(
                seen.own_ended[who] * now, seen.own_censored[who] * now, own_count[who],
                self.settings.own_bursts, UNIFORM, own[who],
            )  # fmt: skip
        self._map = LevelMap(bounds=bounds, middles=middles, own=own)

    def _faded(self, at_s: float, since_s: FloatArray | float) -> FloatArray:
        """Return what is left at a moment of a weight of 1 at others; never beyond all bounds."""
        lives = (at_s - np.asarray(since_s)) / self.settings.half_life_s
        return np.asarray(0.5 ** np.clip(lives, -2.0 * _LIVES_PER_EPOCH, _LIVES_AHEAD))

    def _groups(self, length_log_s: FloatArray) -> IntArray:
        return self.length_edges_log_s.searchsorted(length_log_s, side="right").astype(np.int64) + 1

    def _left(self, below: FloatArray, groups: IntArray) -> FloatArray:
        """Return the PITs as they are after the correction of their groups."""
        if self._map is None:
            return below
        out = np.empty(len(below))
        cdf_at_each(self._map.bounds, groups, EDGES, below, out)
        return out

    def _add(self, to: Evidence, readings: PitReadings, each: float = 1.0) -> None:
        """Add jobs with their faded weights, each of them standing for so many."""
        weight = each * self._faded(self.epoch_s, readings.start_s)
        # a job that has hardly begun says nothing yet: it is evidence by the part that it has run
        evidence = weight * np.where(readings.observed, 1.0, readings.below)
        groups, bins = self._groups(readings.length_log_s), bins_of(readings.below)
        left = bins_of(self._left(readings.below, groups))
        who = self._numbers(readings.identity, readings.submitted_s)
        to.widen(len(self.names))
        ended = np.flatnonzero(readings.observed)
        spread = spread_over(readings.below[ended], readings.upto[ended], bins[ended]) * weight[ended, None]
        cut = np.flatnonzero(~readings.observed)
        for group in (np.zeros_like(groups), groups):
            np.add.at(to.ended, (group[ended], bins[ended]), weight[ended])
            np.add.at(to.spread, group[ended], spread)
            np.add.at(to.censored, (group[cut], bins[cut]), weight[cut])
            np.add.at(to.submitters, (group, who), evidence)
        np.add.at(to.own_ended, (who[ended], left[ended]), weight[ended])
        np.add.at(to.own_censored, (who[cut], left[cut]), weight[cut])
        bursts = (readings.submitted_s // self.settings.burst_s).astype(np.int64)
        for number, burst, more in zip(who.tolist(), bursts.tolist(), evidence.tolist(), strict=True):
            before = to.bursts.get((number, burst), 0.0)
            to.bursts[number, burst] = before + more
            to.own_total[number] += more
            to.own_squares[number] += more * (2.0 * before + more)

    def _numbers(self, identity: npt.NDArray[np.object_], submitted_s: FloatArray) -> IntArray:
        """Return the number of each submitter; jobs of unknown submitters are one of a day."""
        names = self.names
        return np.array(
            [
                names.setdefault(f"{_NOBODY}{when // 86400:.0f}" if who is None else who, len(names))
                for who, when in zip(identity, submitted_s.tolist(), strict=True)
            ],
            dtype=np.int64,
        )

    def _move_epoch(self, start_s: float) -> None:
        """State weights relative to a later moment before they outgrow, and forget who is long gone."""
        assert self.evidence is not None  # noqa: S101  (for the type checker)
        if not math.isfinite(self.epoch_s):
            self.epoch_s = start_s
        lives = (start_s - self.epoch_s) / self.settings.half_life_s
        if lives > _LIVES_PER_EPOCH or lives < -_LIVES_AHEAD:
            self.evidence.scale(0.5**lives if lives > 0 else 0.0)
            self.epoch_s = start_s
            self.forget()

    def make_anonymous(self) -> None:
        """Keep what was learned of all jobs and of lengths, and nothing of single submitters."""
        self.names = {f"{_NOBODY}{number}": number for number in range(len(self.names))}
        if self.evidence is not None:
            self.evidence.own_ended[:] = 0.0
            self.evidence.own_censored[:] = 0.0
            self.evidence.bursts = {}
            self.refresh(self.refreshed_s)

    def forget(self) -> None:
        """Forget submitters whose jobs hardly count any more."""
        seen = self.evidence
        if seen is None or not self.names:
            return
        seen.widen(len(self.names))
        latest = max(self.epoch_s, self.refreshed_s)
        now = float(self._faded(latest, self.epoch_s))
        kept = [
            (name, number) for name, number in self.names.items() if seen.own_total[number] * now > _FORGOTTEN
        ]
        rows = np.array([number for _, number in kept], dtype=np.int64)
        renumbered = {number: new for new, number in enumerate(rows.tolist())}
        self.names = {name: renumbered[number] for name, number in kept}
        self.evidence = Evidence(
            ended=seen.ended, spread=seen.spread, censored=seen.censored, submitters=seen.submitters[:, rows],
            own_ended=seen.own_ended[rows], own_censored=seen.own_censored[rows],
            own_total=seen.own_total[rows], own_squares=seen.own_squares[rows],
            bursts={
                (renumbered[who], burst): weight
                for (who, burst), weight in seen.bursts.items()
                if who in renumbered and weight * now > _FORGOTTEN
            },
        )  # fmt: skip
        if self._map is not None:
            own = np.vstack([self._map.own, np.tile(UNIFORM, (int(rows.max(initial=-1)) + 1, 1))])[rows]
            self._map = LevelMap(bounds=self._map.bounds, middles=self._map.middles, own=own)
