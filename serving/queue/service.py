"""This module puts the queue of a service together, and runs it from start to stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine as Database
from structlog.typing import FilteringBoundLogger

from predictor.contracts.events import JobFinished, JobSubmitted
from predictor.data.clusters.example_files import load_cluster
from predictor.monitoring.board import AlertBoard
from predictor.scheduling import views
from predictor.scheduling.capacity import Pool
from predictor.scheduling.cluster_pools import cluster_pools
from predictor.scheduling.coordinator import Coordinator
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_file import read_policy
from predictor.scheduling.snapshot import restore, snapshot
from serving.accuracy import Accuracy
from serving.drift_watch import DriftWatch
from serving.engine.engine import Engine
from serving.ledger import Ledger
from serving.live.hub import Hub
from serving.model_slot import ModelSlot
from serving.names import Names
from serving.ports import Clock
from serving.queue.bridge import LedgerOutcomes, ModelForecasts
from serving.queue.commands import QueueCommands
from serving.queue.exchange import QueueExchange
from serving.queue.monitor import QueueMonitor
from serving.queue.once import Once
from serving.queue.operation import Operation
from serving.queue.policies import QueuePolicies
from serving.queue.table import queue_operations
from serving.queue.trials import QueueTrials
from serving.queue.views import QueueViews
from serving.resources import Resources
from serving.retrain_request import RetrainRequest
from serving.served_model import ServedModel
from serving.settings import Settings
from serving.store.audit_trail import latest_audits
from serving.store.holder import this_process
from serving.store.lease import LeaseKeeper
from serving.store.policy_history import policy_changes
from serving.store.schema import migrate
from serving.store.sql_event_log import SqlEventLog
from serving.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueService:
    """The parts of the queue."""

    database: Database
    engine: Engine
    hub: Hub
    keeper: LeaseKeeper
    monitor: QueueMonitor
    operations: tuple[Operation, ...]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Restore the state, wait for the lease, and give it back at the end."""
        await asyncio.to_thread(migrate, self.database)
        await asyncio.to_thread(warm_up)  # compiling takes seconds, and nobody should wait for it
        await self.engine.start()
        self.keeper.start()
        watch = asyncio.create_task(self.monitor.run())
        try:
            yield
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self.engine.stop()
            await asyncio.to_thread(self.keeper.stop)


def build_queue(
    settings: Settings, *, database: Database, slot: ModelSlot[ServedModel], ledger: Ledger,
    resources: Resources, accuracy: Accuracy, clock: Clock, telemetry: Telemetry,
    logger: FilteringBoundLogger, names: Names, drift: DriftWatch,
) -> QueueService | None:  # fmt: skip
    """Return the queue of the cluster that the settings name; None = they name none.

    Raises:
        InputError: the cluster or the policy cannot be used.
    """
    if settings.cluster is None:
        return None
    pools = cluster_pools(load_cluster(settings.cluster))
    policy = names.hide_in_policy(read_policy(settings.policy) if settings.policy else Policy())
    log, hub, board = SqlEventLog(database), Hub(), AlertBoard()
    engine = Engine(
        log=log, build=lambda: Coordinator(policy, pools), hub=hub, clock=clock, logger=logger,
    )  # fmt: skip
    once = Once(log, engine)
    forecasts = ModelForecasts(slot, resources, logger)
    commands = QueueCommands(
        engine=engine, once=once, forecasts=forecasts, outcomes=LedgerOutcomes(ledger, logger),
        most_jobs=settings.max_jobs, most_waiting=settings.max_waiting, names=names,
    )  # fmt: skip
    operations = queue_operations(
        commands=commands, views=QueueViews(engine),
        policies=QueuePolicies(engine, once, names, partial(policy_changes, database)),
        trials=QueueTrials(engine, forecasts, names, settings.max_jobs),
        exchange=QueueExchange(
            engine=engine, once=once, board=board, audits=partial(latest_audits, database),
            names=names,
        ),
    )  # fmt: skip

    def on_lease(epoch: int | None) -> None:
        engine.loop.call_soon_threadsafe(engine.lease_changed, epoch)

    keeper = LeaseKeeper(log, holder=this_process(), on_change=on_lease, logger=logger)
    monitor = QueueMonitor(
        engine=engine, board=board, accuracy=accuracy, every_s=settings.monitor_s, logger=logger,
        telemetry=telemetry, hub=hub, drift=drift, slot=slot,
        request=RetrainRequest(settings.retrain_request, pause_s=settings.retrain_pause_s),
    )  # fmt: skip
    return QueueService(
        database=database, engine=engine, hub=hub, keeper=keeper, monitor=monitor, operations=operations
    )


def warm_up() -> None:
    """Run a short story through a Coordinator of its own, so that all that is compiled is compiled."""
    tried = Coordinator(Policy(), (Pool(name="nodes", node_units=(2, 2)), Pool(name="counted", total=2)))
    for number in range(8):
        job = JobSubmitted(now_s=float(number), job_id=str(number), width=2, limit_s=100.0, team="a/b")
        tried.apply(job)
    views.queue_page(tried, 0, 5, now_s=9.0)
    views.etas(tried, 5, 9.0)
    views.running_page(tried, 0, 5, now_s=9.0)
    views.capacity(tried, 9.0)
    with tried.trial() as trial:
        trial.apply(JobFinished(now_s=10.0, job_id="0"))
    restore(snapshot(tried))
