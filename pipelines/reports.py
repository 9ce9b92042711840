"""This module reads score reports: what each model scored on a window, over all rows and by slice."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from predictor.errors import PipelineError

LOWER_IS_BETTER = ("crps_log", "mean_abs_log_ratio", "median_abs_log_ratio", "mae_s")
SCALARS = (*LOWER_IS_BETTER, "within_2x", "under_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores of one model on one set of rows.

    Attributes:
        values: the scalar scores by name (``crps_log``, ``mae_s``, ...).
        coverage: share of jobs at or below each quantile, by probability.
        pinball: pinball loss by name of quantile.
        pit: counts of the probability integral transform in equal bins, empty where not reported.
    """

    values: Mapping[str, float]
    coverage: Mapping[float, float] = field(default_factory=dict)
    pinball: Mapping[str, float] = field(default_factory=dict)
    pit: tuple[float, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, math.nan)

    def flat(self) -> dict[str, float]:
        """Return all finite scores under one level of names."""
        named = dict(self.values)
        named |= {f"coverage_q{_level(level)}": value for level, value in self.coverage.items()}
        named |= {f"pinball_{name}": value for name, value in self.pinball.items()}
        return {name: value for name, value in named.items() if math.isfinite(value)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceScores:
    """Scores of the models on a part of the rows, such as one queue.

    Attributes:
        is_comparable: the rows are the same for every model and were chosen by what was known at
            submission; only such slices are judged.
    """

    name: str
    rows: int
    models: Mapping[str, Scores]
    is_comparable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """Scores of one or several models on one window.

    Attributes:
        rows: count of scored jobs.
        models: scores by name of the model.
        slices: scores of parts of the rows.
    """

    rows: int
    models: Mapping[str, Scores]
    slices: tuple[SliceScores, ...] = ()

    @property
    def only(self) -> Scores:
        """The scores of a report on one model."""
        if len(self.models) != 1:
            raise PipelineError(f"a report on one model was expected, this one has {', '.join(self.models)}")
        return next(iter(self.models.values()))

    def ranked(self) -> list[tuple[str, Scores]]:
        """Return the models, the best by ``crps_log`` first; those without that score last."""

        def key(item: tuple[str, Scores]) -> float:
            value = item[1]["crps_log"]
            return value if math.isfinite(value) else math.inf

        return sorted(self.models.items(), key=key)


def read_report(document: Mapping[str, object]) -> WindowReport:
    """Read a report from its JSON form.

    Slices may be nested (by dimension, then by value); a slice is what has ``models``, or what maps names
    of models to scores.

    Raises:
        PipelineError: the document has no models.
    """
    models = document.get("models")
    if not isinstance(models, Mapping) or not models:
        raise PipelineError("a score report has no models; evaluate again")
    return WindowReport(
        rows=_count(document.get("test_rows")),
        models={str(name): _scores(entry) for name, entry in models.items()},
        slices=tuple(_slices("", document.get("slices") or {})),
    )


def finite(value: object) -> object:
    """Return JSON values with None for numbers that JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): finite(below) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [finite(below) for below in value]
    return value


def _slices(path: str, node: object) -> list[SliceScores]:
    if not isinstance(node, Mapping):
        return []
    models = node.get("models", node)
    if isinstance(models, Mapping):
        scored = {str(name): entry for name, entry in models.items() if _is_scores(entry)}
        if scored:
            rows = node.get("rows", node.get("test_rows", next(iter(scored.values())).get("rows")))
            found = {name: _scores(entry) for name, entry in scored.items()}
            by_model = path.rsplit("/", 1)[-1].startswith("forecast_")  # cut by each model's own forecast
            comparable = node.get("conditioned_on") != "outcome" and not by_model
            return [SliceScores(name=path, rows=_count(rows), models=found, is_comparable=comparable)]
    prefix = f"{path}/" if path else ""
    return [part for name, below in node.items() for part in _slices(f"{prefix}{name}", below)]


def _is_scores(entry: object) -> bool:
    """Whether it is scores; a slice also shows scores of its own beside those of its models."""
    return isinstance(entry, Mapping) and "models" not in entry and any(n in entry for n in LOWER_IS_BETTER)


def _scores(entry: object) -> Scores:
    if not isinstance(entry, Mapping):
        raise PipelineError("a score report names a model without scores; evaluate again")
    pit, coverage = entry.get("pit"), _mapping(entry.get("coverage"))
    return Scores(
        values={name: _number(entry[name]) for name in SCALARS if name in entry},
        coverage={_probability(key): _number(value) for key, value in coverage.items()},
        pinball={str(key): _number(value) for key, value in _mapping(entry.get("pinball")).items()},
        pit=tuple(_number(value) for value in pit) if isinstance(pit, list | tuple) else (),
    )


def _mapping(value: object) -> Mapping[object, object]:
    return value if isinstance(value, Mapping) else {}


def _probability(key: object) -> float:
    """Return 0.9 for ``q90`` and 0.975 for ``q97.5``."""
    text = str(key)
    return round(float(text[1:]) / 100, 6) if text.startswith("q") else float(text)


def _level(level: float) -> str:
    return f"{level * 100:g}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _count(value: object) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
