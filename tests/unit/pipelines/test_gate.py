"""This module checks the promotion gate check by check."""

import math
from dataclasses import dataclass, field

import pytest

from pipelines.gate import CheckCode, Gate
from pipelines.reports import WindowReport, read_report
from pipelines.settings import GateSettings


def a_report(
    name: str = "m",
    *,
    crps: float = 0.5,
    ratio: float = 0.8,
    q90: float = 0.91,
    q95: float = 0.95,
    slices: dict[str, tuple[int, float]] | None = None,
    conditioned_on: str = "submission",
) -> WindowReport:
    scores = {"crps_log": crps, "mean_abs_log_ratio": ratio, "coverage": {"q90": q90, "q95": q95}}
    parts = {
        part: {
            "rows": rows,
            "conditioned_on": conditioned_on,
            "models": {name: {**scores, "crps_log": value}},
        }
        for part, (rows, value) in (slices or {}).items()
    }
    return read_report({"test_rows": 1000, "models": {name: scores}, "slices": parts})


@dataclass(frozen=True, kw_only=True)
class Story:
    challenger: WindowReport
    champion: WindowReport | None = field(default_factory=a_report)
    baselines: WindowReport | None = field(default_factory=lambda: a_report("last_run", crps=0.9))
    saw: bool = False
    want: set[CheckCode] = field(default_factory=set)


STORIES = {
    "an equal challenger passes": Story(challenger=a_report()),
    "a slightly worse one passes": Story(challenger=a_report(crps=0.51, ratio=0.82)),
    "a worse crps is refused": Story(challenger=a_report(crps=0.52), want={CheckCode.CRPS_VS_CHAMPION}),
    "a worse ratio is refused": Story(challenger=a_report(ratio=0.9), want={CheckCode.LOG_RATIO_VS_CHAMPION}),
    "a champion that saw the window may be better": Story(challenger=a_report(crps=0.6, ratio=0.9), saw=True),
    "but not by far": Story(challenger=a_report(crps=0.7), saw=True, want={CheckCode.CRPS_VS_CHAMPION}),
    "a baseline must be beaten": Story(
        challenger=a_report(), baselines=a_report("last_run", crps=0.5), want={CheckCode.BEATS_BASELINES}
    ),
    "without a champion the rest counts": Story(challenger=a_report(crps=0.8), champion=None),
    "q90 too low": Story(challenger=a_report(q90=0.8), want={CheckCode.COVERAGE_Q90}),
    "q90 too high": Story(challenger=a_report(q90=0.99), want={CheckCode.COVERAGE_Q90}),
    "q95 too low": Story(challenger=a_report(q95=0.85), want={CheckCode.COVERAGE_Q95}),
    "coverage not reported": Story(challenger=a_report(q90=math.nan), want={CheckCode.COVERAGE_Q90}),
    "a score that is no number": Story(
        challenger=a_report(crps=math.nan), want={CheckCode.SCORES_FINITE, CheckCode.CRPS_VS_CHAMPION}
    ),
    "a champion without the score holds nobody back": Story(
        challenger=a_report(), champion=a_report(crps=math.nan)
    ),
    "a bad slice is refused": Story(
        challenger=a_report(slices={"gpu_jobs": (500, 0.9)}),
        champion=a_report(slices={"gpu_jobs": (500, 0.5)}),
        want={CheckCode.SLICE_VS_CHAMPION},
    ),
    "a small slice is not judged": Story(
        challenger=a_report(slices={"gpu_jobs": (50, 0.9)}), champion=a_report(slices={"gpu_jobs": (50, 0.5)})
    ),
    "a slice by outcome is not judged": Story(
        challenger=a_report(slices={"state_failed": (500, 0.9)}, conditioned_on="outcome"),
        champion=a_report(slices={"state_failed": (500, 0.5)}, conditioned_on="outcome"),
    ),
    "a slice by the model's own forecast is not judged": Story(
        challenger=a_report(slices={"forecast_duration_decile_1": (500, 0.9)}),
        champion=a_report(slices={"forecast_duration_decile_1": (500, 0.5)}),
    ),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_the_gate_refuses_for_these_reasons_only(story: Story) -> None:
    gate = Gate(settings=GateSettings(), champion_saw_window=story.saw)
    decision = gate(story.challenger, story.champion, story.baselines)
    assert {reason.code for reason in decision.reasons} == story.want
    assert decision.passed is not bool(story.want)


def test_every_reason_has_numbers_and_a_sentence() -> None:
    decision = Gate(settings=GateSettings())(a_report(crps=0.6), a_report(), a_report("b", crps=0.55))
    reason = next(r for r in decision.reasons if r.code is CheckCode.CRPS_VS_CHAMPION)
    assert reason.numbers == pytest.approx({"challenger": 0.6, "champion": 0.5, "change": 0.2, "limit": 0.03})
    assert "+20.0%" in reason.sentence
    assert all(check.sentence and check.numbers for check in decision.checks)


def test_baselines_can_be_left_out_of_the_judgement() -> None:
    gate = Gate(settings=GateSettings(must_beat_baselines=False))
    assert gate(a_report(), None, a_report("last_run", crps=0.1)).passed
