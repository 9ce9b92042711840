"""This module looks at queue and forecasts from time to time, and raises and clears alerts."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from predictor.monitoring.alert import Alert
from predictor.monitoring.board import AlertBoard
from predictor.monitoring.forecast_quality import QualitySettings, QualityWindow, quality_alerts
from predictor.monitoring.queue_health import (
    CapacityView,
    HealthSettings,
    QueueView,
    TeamView,
    WaitingView,
    health_alerts,
)
from predictor.scheduling import views
from serving.accuracy import Accuracy
from serving.drift_watch import DriftWatch
from serving.engine.engine import Engine
from serving.engine.steps import Role
from serving.evidence import Evidence
from serving.live.hub import Hub, Topic
from serving.memory_answers import USUAL_RISK
from serving.model_slot import ModelSlot
from serving.problems import ProblemError
from serving.retrain_request import RetrainRequest
from serving.served_model import ServedModel
from serving.telemetry import Telemetry

_LEVELS = {"q50": 0.5, "q90": 0.9, "q95": 0.95}
_LOOKED_AT = 1000  # jobs from the head of the queue whose waits are looked at


class QueueMonitor:
    """Watches one engine.

    Args:
        every_s: seconds between two looks.
    """

    def __init__(
        self, *, engine: Engine, board: AlertBoard, accuracy: Accuracy, every_s: float,
        logger: FilteringBoundLogger, telemetry: Telemetry, hub: Hub, drift: DriftWatch,
        slot: ModelSlot[ServedModel], request: RetrainRequest,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._telemetry = telemetry
        self._hub = hub
        self._board = board
        self._drift = drift
        self._slot = slot
        self._request = request
        self._accuracy = accuracy
        self._every_s = every_s
        self._logger = logger
        self._idle_since: dict[str, float] = {}
        self._moved_s: float | None = None

    async def run(self) -> None:
        """Look for ever; an error of one look is logged and does not end the next."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.look()
            except ProblemError as error:  # another instance leads meanwhile
                self._logger.info("alerts were not told", reason=error.problem.detail)
            except Exception as error:  # whatever a look stumbles over
                self._logger.error("looking for alerts failed", exc_info=error)

    async def look(self) -> None:
        """Look once, and tell what changed; only the leader raises alerts."""
        leads = self._engine.role is Role.LEADING
        self._measure(leads)
        if not leads:
            return
        change = self._board.update(self._alerts(), self._engine.now_s())
        for one in change.raised:
            self._logger.warning("alert", key=one.alert.key, sentence=one.alert.sentence)
            await self._engine.note(Topic.ALERTS, "raised", one.to_json())
        for one in change.cleared:
            await self._engine.note(Topic.ALERTS, "cleared", one.to_json())
        await self._ask_for_retraining([one.alert for one in change.raised])

    async def _ask_for_retraining(self, raised: Sequence[Alert]) -> None:
        model = self._slot.state.model
        version = "" if model is None else model.info.version
        try:
            asked = self._request.ask(raised, model=version, now_s=self._engine.now_s())
        except OSError as error:
            self._logger.error("a retraining could not be asked for", reason=str(error))
            return
        if asked:
            keys = [alert.key for alert in raised if alert.retrain]
            self._logger.warning("a retraining was asked for", alerts=keys, model=version)
            await self._engine.note(Topic.MODEL, "retraining", {"alerts": keys, "model": version})

    def _measure(self, leads: bool) -> None:
        coordinator = self._engine.coordinator
        standing = Counter((one.alert.code.value, one.alert.severity.value) for one in self._board.standing())
        pools = views.capacity(coordinator, self._engine.now_s())
        self._telemetry.set_queue(
            leads=leads, waiting=coordinator.waiting, running=coordinator.running, alerts=standing,
            units={pool.pool: (pool.total, pool.free) for pool in pools}, watchers=self._hub.watchers,
        )  # fmt: skip

    def _alerts(self) -> list[Alert]:
        coverage, rows = self._accuracy.coverage(), self._accuracy.outcomes
        model = self._slot.state.model
        evidence = Evidence() if model is None else model.evidence
        oom_count, oom_rows = self._accuracy.out_of_memory()
        window = QualityWindow(
            rows=rows,
            covered={
                _LEVELS[name]: round(share * rows) for name, share in coverage.items() if name in _LEVELS
            },
            mean_abs_log_ratio=self._accuracy.mean_abs_log_ratio(),
            reference_abs_log_ratio=evidence.mean_abs_log_ratio, oom_count=oom_count, oom_rows=oom_rows,
            oom_risk=USUAL_RISK,
        )  # fmt: skip
        return [
            *quality_alerts(window, QualitySettings()), *self._drift.look(evidence.drift),
            *health_alerts(self._view(), HealthSettings()),
        ]  # fmt: skip

    def _view(self) -> QueueView:
        coordinator, now_s = self._engine.coordinator, self._engine.now_s()
        page = views.queue_page(coordinator, 0, _LOOKED_AT, now_s=now_s)
        pools = views.capacity(coordinator, now_s)
        urgent = {each.name for each in coordinator.policy.classes if each.may_preempt}
        guard_s = coordinator.policy.order.guard_s
        default = pools[0].pool
        if coordinator.running or not coordinator.waiting or self._moved_s is None:
            self._moved_s = now_s
        return QueueView(
            waiting=[
                WaitingView(
                    job_id=row.job_id, team=row.team or row.user, workload_class=row.workload_class,
                    pool=row.pool or default, waited_s=now_s - row.submitted_s, gpu_count=row.width,
                    requeues=row.requeues, urgent=row.workload_class in urgent,
                    bound_s=max(3.0 * guard_s, HealthSettings().starvation_s),
                    fits=row.width <= max(pool.total for pool in pools),
                )
                for row in page.rows
            ],
            running_count=coordinator.running,
            capacity=[
                CapacityView(
                    pool=pool.pool, gpu_type=pool.gpu_type, total=pool.total, free=pool.free,
                    scarce=pool.scarce, idle_s=self._idle_s(pool.pool, pool.free, now_s),
                )
                for pool in pools
            ],
            teams=[
                TeamView(team=team.team, pool=default, used=team.used, quota=team.quota, waiting=team.waiting)
                for team in views.teams(coordinator)
                if team.quota is not None
            ],
            since_start_s=now_s - self._moved_s,
        )  # fmt: skip

    def _idle_s(self, pool: str, free: int, now_s: float) -> float:
        if free <= 0:
            self._idle_since.pop(pool, None)
            return 0.0
        return now_s - self._idle_since.setdefault(pool, now_s)
