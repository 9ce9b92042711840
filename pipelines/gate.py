"""This module decides whether a challenger may become champion; it is a pure function of score reports."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipelines.reports import Scores, SliceScores, WindowReport
from pipelines.settings import GateSettings


class CheckCode(StrEnum):
    """What the gate looks at."""

    SCORES_FINITE = "SCORES_FINITE"
    CRPS_VS_CHAMPION = "CRPS_VS_CHAMPION"
    LOG_RATIO_VS_CHAMPION = "LOG_RATIO_VS_CHAMPION"
    BEATS_BASELINES = "BEATS_BASELINES"
    COVERAGE_Q90 = "COVERAGE_Q90"
    COVERAGE_Q95 = "COVERAGE_Q95"
    SLICE_VS_CHAMPION = "SLICE_VS_CHAMPION"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One finding: a code, the numbers behind it and a sentence."""

    code: CheckCode
    passed: bool
    numbers: Mapping[str, float]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """All findings; the challenger passes if every one of them does."""

    checks: tuple[GateCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the challenger may become champion."""
        return all(check.passed for check in self.checks)

    @property
    def reasons(self) -> tuple[GateCheck, ...]:
        """The findings that refuse the challenger."""
        return tuple(check for check in self.checks if not check.passed)

    def to_json(self) -> dict[str, object]:
        """Return the decision as JSON-able values."""
        return {
            "passed": self.passed,
            "checks": [
                {"code": str(c.code), "passed": c.passed, "numbers": dict(c.numbers), "sentence": c.sentence}
                for c in self.checks
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The promotion gate.

    Args:
        settings: the thresholds.
        champion_saw_window: the champion was trained on rows of the window, which flatters it there; the
            looser limit holds then.
    """

    settings: GateSettings
    champion_saw_window: bool = False

    def __call__(
        self, challenger: WindowReport, champion: WindowReport | None, baselines: WindowReport | None
    ) -> GateDecision:
        """Judge the challenger; without a champion only the baselines and the coverage count."""
        ours = challenger.only
        checks = [_finite(ours)]
        if champion is not None:
            checks += self._against_champion(ours, champion.only)
            checks += self._slices(challenger.slices, champion.slices)
        if baselines is not None and self.settings.must_beat_baselines:
            checks.append(_against_baselines(ours, baselines))
        checks += self._coverage(ours)
        return GateDecision(checks=tuple(checks))

    def _against_champion(self, ours: Scores, theirs: Scores) -> Iterator[GateCheck]:
        for code, name, strict in (
            (CheckCode.CRPS_VS_CHAMPION, "crps_log", self.settings.max_crps_worsening),
            (CheckCode.LOG_RATIO_VS_CHAMPION, "mean_abs_log_ratio", self.settings.max_log_ratio_worsening),
        ):
            limit = max(strict, self.settings.max_worsening_seen) if self.champion_saw_window else strict
            change = _worsening(ours[name], theirs[name])
            seen = ", which has learned from jobs of this window" if self.champion_saw_window else ""
            yield GateCheck(
                code=code,
                passed=not change > limit,  # a champion without this score cannot hold a challenger back
                numbers=_numbers(ours[name], theirs[name], change, limit),
                sentence=f"{name} is {ours[name]:.4f}, {change:+.1%} against the champion's "
                f"{theirs[name]:.4f}{seen}; at most {limit:+.1%} is allowed",
            )

    def _slices(self, ours: tuple[SliceScores, ...], theirs: tuple[SliceScores, ...]) -> Iterator[GateCheck]:
        known = {part.name: part for part in theirs}
        limit = self.settings.max_slice_worsening
        if self.champion_saw_window:
            limit = max(limit, self.settings.max_slice_worsening_seen)
        for part in ours:
            other = known.get(part.name)
            if (
                other is None
                or not part.is_comparable
                or min(part.rows, other.rows) < self.settings.slice_min_rows
            ):
                continue
            mine, champions = (next(iter(side.models.values()))["crps_log"] for side in (part, other))
            change = _worsening(mine, champions)
            if change > limit:  # slices that hold are many and say nothing
                yield GateCheck(
                    code=CheckCode.SLICE_VS_CHAMPION,
                    passed=False,
                    numbers={**_numbers(mine, champions, change, limit), "rows": float(part.rows)},
                    sentence=f"in slice {part.name} ({part.rows} jobs) crps_log is {mine:.4f}, {change:+.1%} "
                    f"against the champion's {champions:.4f}; at most {limit:+.1%} is allowed",
                )

    def _coverage(self, ours: Scores) -> Iterator[GateCheck]:
        for code, level, (low, high) in (
            (CheckCode.COVERAGE_Q90, 0.9, self.settings.q90_coverage),
            (CheckCode.COVERAGE_Q95, 0.95, self.settings.q95_coverage),
        ):
            share = ours.coverage.get(level, math.nan)
            yield GateCheck(
                code=code,
                passed=low <= share <= high,
                numbers={"coverage": share, "low": low, "high": high},
                sentence=f"{share:.1%} of the jobs end by their q{level * 100:.0f}; "
                f"{low:.1%} to {high:.1%} is allowed",
            )


def _finite(ours: Scores) -> GateCheck:
    wanted = {name: ours[name] for name in ("crps_log", "mean_abs_log_ratio")}
    bad = [name for name, value in wanted.items() if not math.isfinite(value)]
    sentence = f"{' and '.join(bad)} cannot be computed" if bad else "all scores are finite"
    return GateCheck(code=CheckCode.SCORES_FINITE, passed=not bad, numbers=wanted, sentence=sentence)


def _against_baselines(ours: Scores, baselines: WindowReport) -> GateCheck:
    name, best = baselines.ranked()[0]
    return GateCheck(
        code=CheckCode.BEATS_BASELINES,
        passed=not ours["crps_log"] >= best["crps_log"],
        numbers={"challenger": ours["crps_log"], "baseline": best["crps_log"]},
        sentence=f"crps_log is {ours['crps_log']:.4f}, that of the best baseline ({name}) "
        f"{best['crps_log']:.4f}; it must be lower",
    )


def _numbers(challenger: float, champion: float, change: float, limit: float) -> dict[str, float]:
    return {"challenger": challenger, "champion": champion, "change": change, "limit": limit}


def _worsening(ours: float, theirs: float) -> float:
    """Return the relative change; positive = worse."""
    if not math.isfinite(theirs):
        return math.nan
    if theirs <= 0:
        return 0.0 if ours <= theirs else math.inf
    return ours / theirs - 1.0 if math.isfinite(ours) else math.inf
