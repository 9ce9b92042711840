"""This module decides whether a bundle that learned from measurements may become champion."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipelines.domain import Document
from pipelines.measured_target import Judgement
from pipelines.settings import MeasuredSettings


class MeasuredCheckCode(StrEnum):
    """What the gate looks at."""

    SCORES_FINITE = "SCORES_FINITE"
    BEATS_BASELINES = "BEATS_BASELINES"
    BOUND_COVERAGE = "BOUND_COVERAGE"
    SCORE_VS_CHAMPION = "SCORE_VS_CHAMPION"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCheck:
    """One finding."""

    code: MeasuredCheckCode
    passed: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDecision:
    """All findings, and the version that they were made against."""

    champion: str | None
    checks: tuple[MeasuredCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the bundle may become champion."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> Document:
        """Return the decision as JSON-able values."""
        return {
            "champion": self.champion, "passed": self.passed,
            "checks": [
                {"code": str(one.code), "passed": one.passed, "sentence": one.sentence} for one in self.checks
            ],
        }  # fmt: skip

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "MeasuredDecision":
        """Read what :meth:`to_json` wrote."""
        checks, champion = document["checks"], document["champion"]
        assert isinstance(checks, list)  # noqa: S101  (the file is our own; for the type checker)
        return cls(
            champion=None if champion is None else str(champion),
            checks=tuple(
                MeasuredCheck(
                    code=MeasuredCheckCode(one["code"]), passed=one["passed"], sentence=one["sentence"]
                )
                for one in checks
            ),
        )


def decide(
    ours: Judgement, settings: MeasuredSettings, *, champion: str | None, theirs: Judgement | None
) -> MeasuredDecision:
    """Judge a bundle.

    Args:
        champion: version that serves, None = none.
        theirs: how that one was judged, None where its record does not tell.
    """
    finite = math.isfinite(ours.ours) and math.isfinite(ours.coverage)
    checks = [MeasuredCheck(
        code=MeasuredCheckCode.SCORES_FINITE, passed=finite,
        sentence=f"{ours.score} is {ours.ours:.4f} on {', '.join(ours.judged_on)}",
    )]  # fmt: skip
    if settings.must_beat_baselines:
        checks += [
            MeasuredCheck(
                code=MeasuredCheckCode.BEATS_BASELINES, passed=ours.ours_beside[name] <= value,
                sentence=f"{ours.score} {ours.ours_beside[name]:.4f}, baseline {name} {value:.4f}",
            )
            for name, value in ours.baselines.items()
        ]  # fmt: skip
    low, high = settings.coverage
    checks.append(MeasuredCheck(
        code=MeasuredCheckCode.BOUND_COVERAGE, passed=low <= ours.coverage <= high,
        sentence=f"{ours.coverage:.1%} lie within the bound that promises {ours.wanted:.0%}; allowed are "
        f"{low:.0%} to {high:.0%}",
    ))  # fmt: skip
    if theirs is not None and theirs.judged_on == ours.judged_on and theirs.score == ours.score:
        limit = theirs.ours * (1.0 + settings.max_worsening)
        checks.append(MeasuredCheck(
            code=MeasuredCheckCode.SCORE_VS_CHAMPION, passed=ours.ours <= limit,
            sentence=f"{ours.score} {ours.ours:.4f}, champion {champion} had {theirs.ours:.4f} on the same "
            f"kind of data; up to {limit:.4f} is allowed",
        ))  # fmt: skip
    return MeasuredDecision(champion=champion, checks=tuple(checks))
