"""This module writes the card of a model: its use, its data, its scores beside others, its limits."""

from collections.abc import Mapping, Sequence

from pipelines.reports import Scores
from pipelines.run_record import RunRecord, utc_text

_COLUMNS = ("crps_log", "mean_abs_log_ratio", "median_abs_log_ratio", "mae_s", "within_2x", "under_rate")


def model_card(record: RunRecord) -> str:
    """Return the card in Markdown of the bundle that the run publishes.

    A challenger that passed is refitted on all data; a refused one is published as it was judged.
    """
    parts = [
        f"# Model card: {record.target} {record.version}",
        _use(record),
        _data(record),
        _scores(record),
        _gate(record),
        _limits(record),
    ]
    return "\n\n".join(parts) + "\n"


def _use(record: RunRecord) -> str:
    return (
        "## Intended use\n\n"
        f"Forecasts of the {record.target} of batch jobs at their submission, as quantiles, for schedulers "
        "and waiting users of the cluster that the log comes from. Not for rating people, and not for a "
        "cluster whose jobs the model has not seen: train one there."
    )


def _data(record: RunRecord) -> str:
    facts, window = record.facts, record.window
    rows = {
        "jobs": f"{facts.rows:,}",
        "submitted": f"{utc_text(facts.first_s)} to {utc_text(facts.last_s)}",
        "trained on what was known at": utc_text(record.trained_until_s),
        "judged on": f"{window.rows:,} jobs submitted from {utc_text(window.from_s)}",
        "fingerprint of the data": f"`{facts.fingerprint}`",
        "seed": record.params.get("settings.training.random_state", "unknown"),
        "run": f"`{record.key}`, started {record.started_at}",
    }
    return "## Data\n\n" + _table(("", ""), list(rows.items()))


def _scores(record: RunRecord) -> str:
    models: dict[str, Scores] = {"**this model**": record.challenger_report.only}
    if record.champion_report is not None:
        models[f"champion {record.champion}"] = record.champion_report.only
    models |= {f"baseline {name}": scores for name, scores in record.baseline_report.ranked()}
    levels = sorted({level for scores in models.values() for level in scores.coverage})
    rows = [
        (name, *(_number(scores[column]) for column in _COLUMNS),
         *(_number(scores.coverage.get(level)) for level in levels))
        for name, scores in models.items()
    ]  # fmt: skip
    head = ("model", *_COLUMNS, *(f"at or below q{level * 100:g}" for level in levels))
    text = "## Scores on the window\n\n"
    if record.decision.passed:
        text += (
            "They are those of the same recipe trained on the jobs before the window; the bundle itself was "
            "then refitted on all jobs.\n\n"
        )
    if record.window.champion_saw and record.champion_report is not None:
        text += "The champion has learned from jobs of the window, which flatters its scores.\n\n"
    if record.champion_note:
        text += f"The champion {record.champion} was not scored: {record.champion_note}.\n\n"
    return text + _table(head, rows)


def _gate(record: RunRecord) -> str:
    verdict = "passed" if record.decision.passed else "refused"
    rows = [
        ("pass" if check.passed else "**fail**", f"`{check.code}`", check.sentence)
        for check in record.decision.checks
    ]
    return f"## Promotion gate: {verdict}\n\n" + _table(("", "check", "finding"), rows)


def _limits(record: RunRecord) -> str:
    return (
        "## Limits\n\n"
        "- Users, queues and names without history get forecasts from the request alone, which are wide.\n"
        "- Jobs killed at their limit, cancelled or evicted are taken as lower bounds of a duration.\n"
        "- Coverage holds on average over the window, not for each user or queue.\n"
        "- A change of hardware, software or habits shows in the scores only after such jobs have ended.\n"
        f"- Nothing after {utc_text(record.trained_until_s)} is known to the model."
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _number(value: float | None) -> str:
    if value is None or value != value:  # noqa: PLR0124  (not a number)
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4f}"


def summary_params(record: RunRecord) -> Mapping[str, str]:
    """Return the facts of a run that are worth a parameter in tracking."""
    facts, window = record.facts, record.window
    return {
        "run_key": record.key,
        "version": record.version,
        "data.fingerprint": facts.fingerprint,
        "data.rows": str(facts.rows),
        "data.first": utc_text(facts.first_s),
        "data.last": utc_text(facts.last_s),
        "window.from": utc_text(window.from_s),
        "window.rows": str(window.rows),
        "champion": record.champion or "none",
        **record.params,
    }
