"""This module writes the model card of a bundle that learned from measurements."""

from collections.abc import Sequence

from pipelines.measured_gate import MeasuredDecision
from pipelines.measured_target import Judgement, Measured


def measured_card(
    target: str, *, version: str, started_at: str, data: Measured, judgement: Judgement,
    decision: MeasuredDecision, limits: Sequence[str], seed: int,
) -> str:  # fmt: skip
    """Return the card: what the data cover, how it did beside the baselines, where not to trust it."""
    lines = [
        f"# Model card: {target} {version}", "",
        "## Data", "",
        *(f"- {source}" for source in data.sources),
        *(f"- left out: {reason}" for reason in data.left_out), "",
        f"{data.rows:,} runs in {data.groups:,} groups of what is alike; fingerprint `{data.fingerprint}`, "
        f"seed {seed}, trained {started_at}.", "",
        "What is not in these sets is not covered.", "",
        "## Scores on groups kept out", "",
        f"Judged on {', '.join(judgement.judged_on)}. The bundle itself was then trained on everything.", "",
        f"| model | {judgement.score} | ours on the same sets |", "| --- | --- | --- |",
        f"| **this model** | {judgement.ours:.4f} | {judgement.ours:.4f} |",
        *(f"| {name} | {value:.4f} | {judgement.ours_beside[name]:.4f} |"
          for name, value in sorted(judgement.baselines.items(), key=lambda item: item[1])), "",
        f"{judgement.coverage:.1%} of the observations lie within the bound that promises "
        f"{judgement.wanted:.0%}.", "",
        f"## Promotion gate: {'passed' if decision.passed else 'refused'}", "",
        *(f"- {'pass' if one.passed else '**fail**'} `{one.code}`: {one.sentence}"
          for one in decision.checks),
        "", "## Where it should not be trusted", "",
        *(f"- {limit}" for limit in limits), "",
    ]  # fmt: skip
    return "\n".join(lines)
