"""This module puts the service together; it is the one place that knows every part."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine
from structlog.typing import FilteringBoundLogger

from predictor.data.clusters.example_files import load_cluster
from predictor.forecasting.bundle import read_bundle
from predictor.forecasting.store import FileModelStore
from serving.accuracy import Accuracy
from serving.drift_watch import DriftWatch
from serving.evidence import BundleForecaster
from serving.ledger import Ledger, OpenJobs
from serving.logs import build_logger
from serving.memory_answers import MemoryAnswers
from serving.model_slot import ModelSlot, SlotOptions
from serving.names import Names, names_of
from serving.outcome_log import LogAccount, OutcomeLog
from serving.placement_answers import PlacementAnswers
from serving.ports import BundleLoader, BundleStore, Clock, Forecaster
from serving.queue.service import QueueService, build_queue
from serving.resources import Resources
from serving.security.cors import read_origins
from serving.security.guard import Security
from serving.security.keys import KeyRing
from serving.security.limits import RateLimiter
from serving.security.tickets import Tickets
from serving.seen_events import SeenEvents
from serving.served_memory import ServedMemory, load_memory
from serving.served_model import ServedModel
from serving.served_topology import ServedTopology, load_topology
from serving.settings import Settings
from serving.store.database import open_database
from serving.store.errors import StoreError
from serving.store.key_table import KeyTable
from serving.telemetry import Telemetry


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of one service, and their life from start to stop."""

    settings: Settings
    store: BundleStore
    slot: ModelSlot[ServedModel]
    vram: ModelSlot[ServedMemory]
    topology: ModelSlot[ServedTopology]
    resources: Resources
    ledger: Ledger
    log: OutcomeLog
    accuracy: Accuracy
    telemetry: Telemetry
    logger: FilteringBoundLogger
    clock: Clock
    security: Security
    names: Names
    database: Engine | None = None
    queue: QueueService | None = None
    log_account: LogAccount = field(default_factory=LogAccount)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the log, put a model in place, and follow the alias file until the service stops."""
        try:
            self.log_account = await asyncio.to_thread(self.ledger.restore, self.settings.memory_days)
            tasks = []
            for slot in (self.slot, self.vram, self.topology):
                await slot.start()
                tasks.append(asyncio.create_task(slot.run(self.settings.poll_s)))
            if self.security.ring is not None:
                await asyncio.to_thread(self.security.ring.refresh)
                tasks.append(asyncio.create_task(self._refresh_keys(self.security.ring)))
            try:
                async with contextlib.nullcontext() if self.queue is None else self.queue.running():
                    yield
            finally:
                for task in tasks:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
        finally:
            self.log.close()
            self.ledger.close()
            if self.database is not None:
                self.database.dispose()
            self.logger.info("stopped")

    async def _refresh_keys(self, ring: KeyRing) -> None:
        while True:
            await asyncio.sleep(self.settings.keys_refresh_s)
            try:
                await asyncio.to_thread(ring.refresh)
            except StoreError as error:  # the keys that are known go on to count
                self.logger.warning("the API keys could not be read", reason=str(error))


def load_live(directory: Path, expected_digest: str | None) -> Forecaster:
    """Read and verify a bundle, and make it ready to answer."""
    return BundleForecaster(read_bundle(directory, expected_digest=expected_digest))


def build_services(
    settings: Settings, *, store: BundleStore | None = None, load: BundleLoader = load_live,
    clock: Clock = time.time, logger: FilteringBoundLogger | None = None,
) -> Services:  # fmt: skip
    """Return the parts, wired but not started.

    Args:
        store, load, clock, logger: replaced in tests; by default the bundles of ``settings.models``,
            the real forecaster, the system clock, and JSON lines on standard error.

    Raises:
        LockHeldError: another service writes to the same outcome log.
    """
    logger = logger or build_logger(sys.stderr, settings.log_level)
    store = store or FileModelStore(settings.models)
    telemetry = Telemetry()
    names, origins = names_of(settings), read_origins(settings.cors_origins)
    log = OutcomeLog(settings.outcomes)
    jobs = OpenJobs(SeenEvents(settings.outcomes))
    writing = asyncio.Lock()
    drift = DriftWatch(settings.drift_window)
    accuracy = Accuracy(telemetry, settings.coverage_window, drift)
    options = SlotOptions(
        aliases=(settings.alias, settings.previous_alias), alias_file=settings.models / "aliases.json",
        fallback=settings.fallback_directory(), retry_s=settings.retry_s,
    )  # fmt: skip
    slot = ModelSlot(
        target="duration", store=store,
        load=lambda path, source: ServedModel(load(path, None if source is None else source[1]), source),
        options=options, log=log, writing=writing, open_jobs=jobs.rows, clock=clock,
        telemetry=telemetry, logger=logger,
    )  # fmt: skip
    vram = ModelSlot(
        target="vram", store=FileModelStore(settings.models_vram), load=load_memory,
        options=_optional(settings, settings.models_vram), log=log, writing=writing, open_jobs=jobs.rows,
        clock=clock, telemetry=telemetry, logger=logger,
    )  # fmt: skip
    topology = ModelSlot(
        target="topology", store=FileModelStore(settings.models_topology), load=load_topology,
        options=_optional(settings, settings.models_topology), log=log, writing=writing, open_jobs=jobs.rows,
        clock=clock, telemetry=telemetry, logger=logger,
    )  # fmt: skip
    profile = None if settings.cluster is None else load_cluster(settings.cluster)
    resources = Resources(MemoryAnswers(vram, profile), PlacementAnswers(topology, profile), logger)
    ledger = Ledger(
        log=log, jobs=jobs, slot=slot, accuracy=accuracy, writing=writing, clock=clock, telemetry=telemetry,
        logger=logger, followers=(vram, topology), drift=drift,
    )  # fmt: skip
    wanted = settings.cluster is not None or not settings.insecure_dev
    database = open_database(settings.store) if wanted else None
    security = Security(
        ring=None if database is None or settings.insecure_dev else KeyRing(KeyTable(database), clock),
        limiter=RateLimiter(per_s=settings.rate_per_s, burst=settings.rate_burst), tickets=Tickets(),
        origins=origins,
    )  # fmt: skip
    queue = None
    if database is not None:
        queue = build_queue(
            settings, database=database, slot=slot, ledger=ledger, resources=resources, accuracy=accuracy,
            clock=clock, telemetry=telemetry, logger=logger, names=names, drift=drift,
        )  # fmt: skip
    return Services(
        settings=settings, store=store, slot=slot, vram=vram, topology=topology, resources=resources,
        ledger=ledger, log=log, accuracy=accuracy, names=names,
        telemetry=telemetry, logger=logger, clock=clock, security=security, database=database, queue=queue,
    )  # fmt: skip


def _optional(settings: Settings, root: Path) -> SlotOptions:
    """Return the options of a slot whose forecasts have a way out without a bundle."""
    return SlotOptions(
        aliases=(settings.alias, settings.previous_alias), alias_file=root / "aliases.json", fallback=None,
        retry_s=settings.retry_s, optional=True,
    )  # fmt: skip
