"""This module holds the Prometheus metrics of one service, in a registry of its own.

No label ever carries a user or a job: label values come from route templates, methods, statuses,
quantile names and reason codes, and the latter are cut off at a fixed number.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_REASONS = 32  # distinct fallback codes that get a label of their own
_LATENCY_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RATIO = (0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)


class Telemetry:
    """The metrics of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Histogram(
            "predictor_http_request_duration_seconds", "Time from request to answer.",
            ("route", "method", "status"), buckets=_LATENCY_S, registry=self.registry,
        )  # fmt: skip
        self._forecasts = Counter(
            "predictor_forecasts", "Forecasts made, by the reason of the fallback (none = full model).",
            ("fallback",), registry=self.registry,
        )  # fmt: skip
        self._outcomes = Counter(
            "predictor_outcomes",
            "Outcome events by kind and result.",
            ("event", "result"),
            registry=self.registry,
        )
        self._torn_lines = Gauge(
            "predictor_outcome_log_unreadable_lines", "Lines of the outcome log that could not be read.",
            registry=self.registry,
        )  # fmt: skip
        self._ratio = Histogram(
            "predictor_duration_ratio", "Actual duration over the median forecast at submission.",
            buckets=_RATIO, registry=self.registry,
        )  # fmt: skip
        self._coverage = Gauge(
            "predictor_coverage_ratio", "Share of the latest outcomes at or below the forecast quantile.",
            ("quantile",), registry=self.registry,
        )  # fmt: skip
        self._judged = Gauge(
            "predictor_coverage_outcomes", "Outcomes in the rolling coverage.", registry=self.registry
        )
        self._model = Gauge(
            "predictor_model_info", "The model that answers; 1 for the one served.",
            ("target", "name", "version", "digest", "feature_spec", "origin"), registry=self.registry,
        )  # fmt: skip
        self._age = Gauge(
            "predictor_model_age_seconds",
            "Time since the bundle was made.",
            ("target",),
            registry=self.registry,
        )
        self._data_age = Gauge(
            "predictor_model_data_age_seconds", "Time since the latest job that the bundle was trained on.",
            ("target",), registry=self.registry,
        )  # fmt: skip
        self._loads = Counter(
            "predictor_model_loads", "Attempts to load a bundle.", ("result",), registry=self.registry
        )
        self._queue_jobs = Gauge(
            "predictor_queue_jobs", "Jobs that wait and jobs that run.", ("state",), registry=self.registry
        )
        self._queue_units = Gauge(
            "predictor_queue_units", "Units (GPUs or cores) of each pool.", ("pool", "state"),
            registry=self.registry,
        )  # fmt: skip
        self._queue_leads = Gauge(
            "predictor_queue_leading", "1 where this instance is the writer.", registry=self.registry
        )
        self._alerts = Gauge(
            "predictor_alerts", "Alerts that stand.", ("code", "severity"), registry=self.registry
        )
        self._watchers = Gauge(
            "predictor_live_watchers", "Connections to the live feed.", registry=self.registry
        )
        self._request_children: dict[tuple[str, str, int], Histogram] = {}
        self._forecast_children: dict[str, Counter] = {}
        self._model_labels: dict[str, tuple[str, ...]] = {}

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (route, method, status)
        child = self._request_children.get(key)
        if child is None:
            known = method if method in METHODS else "other"
            child = self._requests.labels(route, known, str(status))
            if known == method:
                self._request_children[key] = child
        child.observe(seconds)

    def count_forecasts(self, fallback: str | None, count: int = 1) -> None:
        """Count forecasts by the reason of their fallback."""
        reason = fallback or "none"
        child = self._forecast_children.get(reason)
        if child is None:
            label = reason if len(self._forecast_children) < MOST_REASONS else "other"
            child = self._forecasts.labels(label)
            if label == reason:
                self._forecast_children[reason] = child
        child.inc(count)

    def count_outcome(self, event: str, result: str) -> None:
        """Count one outcome event."""
        self._outcomes.labels(event, result).inc()

    def set_unreadable_lines(self, count: int) -> None:
        """Say how many lines of the outcome log could not be read."""
        self._torn_lines.set(count)

    def observe_ratio(self, ratio: float) -> None:
        """Record an actual duration relative to its median forecast."""
        self._ratio.observe(ratio)

    def set_coverage(self, coverage: Mapping[str, float], outcomes: int) -> None:
        """Set the rolling coverage of each quantile."""
        for quantile, share in coverage.items():
            self._coverage.labels(quantile).set(share)
        self._judged.set(outcomes)

    def set_model(
        self,
        target: str,
        labels: Mapping[str, str],
        age_s: Callable[[], float],
        data_age_s: Callable[[], float],
    ) -> None:
        """Name the model that answers for a target from now on."""
        if target in self._model_labels:
            self._model.remove(*self._model_labels[target])
        self._model.labels(target=target, **labels).set(1)
        self._model_labels[target] = (target, *labels.values())
        self._age.labels(target).set_function(age_s)
        self._data_age.labels(target).set_function(data_age_s)

    def set_queue(
        self, *, leads: bool, waiting: int, running: int, units: Mapping[str, tuple[int, int]],
        alerts: Mapping[tuple[str, str], int], watchers: int,
    ) -> None:  # fmt: skip
        """Describe the queue; ``units`` are (total, free) by pool, ``alerts`` counts by code and severity."""
        self._queue_leads.set(leads)
        self._queue_jobs.labels("waiting").set(waiting)
        self._queue_jobs.labels("running").set(running)
        for pool, (total, free) in units.items():
            self._queue_units.labels(pool, "total").set(total)
            self._queue_units.labels(pool, "free").set(free)
        self._alerts.clear()
        for (code, severity), count in alerts.items():
            self._alerts.labels(code, severity).set(count)
        self._watchers.set(watchers)

    def count_load(self, result: str) -> None:
        """Count an attempt to load a bundle."""
        self._loads.labels(result).inc()

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self.registry)
