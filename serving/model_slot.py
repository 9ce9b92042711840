"""This module holds the model that answers, and exchanges it between two requests.

A new bundle is read, verified, warmed and brought up to date in a thread; then one assignment on the event
loop puts it in place, so that no request waits, fails or sees half of it. A bundle that cannot be used
changes nothing but the answer of ``/readyz``.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from predictor.errors import PredictorError
from serving.outcome_log import LogPosition, OutcomeLog
from serving.outcome_rows import OutcomeRow
from serving.ports import BundleFacts, BundleStore, Clock, Forecast
from serving.problems import ProblemError, problem
from serving.telemetry import Telemetry


class Origin(StrEnum):
    """Which kind of model answers.

    ::

        NONE ──> FALLBACK ──> CHAMPION <──> LAST_GOOD
          └─────────────────────^
    """

    CHAMPION = "champion"  # what the alias names
    LAST_GOOD = "last-good"  # the alias names something that cannot be used; an earlier bundle answers
    FALLBACK = "fallback"  # the store has nothing usable; the bundle that comes with the checkout answers
    NONE = "none"  # nothing usable at all


class Served(Protocol):
    """A loaded model that follows the outcome log."""

    @property
    def source(self) -> tuple[str, str] | None:
        """Version and digest as the alias file records them, None for a fallback."""

    @property
    def info(self) -> BundleFacts:
        """Identity of the bundle."""

    def record(self, row: OutcomeRow, /) -> Forecast | None:
        """Learn from one row; for a submission, return the forecast as it stood before."""

    def replay(self, rows: Iterable[OutcomeRow], open_jobs: Iterable[OutcomeRow]) -> int:
        """Learn what happened after the bundle was trained, and of jobs still open; return the count."""

    def warm(self, now_s: float) -> None:
        """Answer once, so that no caller waits for a compiler; raise where the answer is none."""


S = TypeVar("S", bound=Served)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState(Generic[S]):
    """What answers, and why not the champion where it is not.

    Attributes:
        model: None while nothing usable was found.
        reason: empty while the champion answers.
        replayed: rows of the outcome log that the model has learned from when it was put in place.
    """

    model: S | None = None
    origin: Origin = Origin.NONE
    reason: str = "not started"
    replayed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """Where bundles come from and when to look for them.

    Attributes:
        aliases: tried in turn at the start; only the first is followed later.
        alias_file: a change of this file means that an alias may have moved.
        fallback: directory of the bundle of last resort, None = there is none.
        retry_s: seconds before a bundle that failed is tried again without a change of the alias file.
        optional: that nothing was ever published is no failure.
    """

    aliases: tuple[str, ...]
    alias_file: Path
    fallback: Path | None
    retry_s: float
    optional: bool = False


class ModelSlot(Generic[S]):
    """The model that answers; all methods belong to the event loop, loading to a thread.

    Args:
        load: reads and verifies a bundle; takes its directory and its source (version and digest).
        target: which forecast the model makes, for log and metrics.
    """

    def __init__(
        self, *, target: str, store: BundleStore, load: Callable[[Path, tuple[str, str] | None], S],
        options: SlotOptions, log: OutcomeLog, writing: asyncio.Lock,
        open_jobs: Callable[[], Iterable[OutcomeRow]], clock: Clock, telemetry: Telemetry,
        logger: FilteringBoundLogger,
    ) -> None:  # fmt: skip
        self.target = target
        self._store = store
        self._load = load
        self._options = options
        self._log = log
        self._writing = writing
        self._open_jobs = open_jobs
        self._clock = clock
        self._telemetry = telemetry
        self._logger = logger
        self._missed: list[OutcomeRow] | None = None  # rows that came while a model was being loaded
        self._seen: tuple[int, int, int] | None = None
        self._tried_s = -math.inf
        self.state: SlotState[S] = SlotState()

    @property
    def model(self) -> S:
        """The model that answers.

        Raises:
            ProblemError: there is none.
        """
        if self.state.model is None:
            raise ProblemError(
                problem("no-model", f"no model is loaded: {self.state.reason}", headers=_RETRY)
            )
        return self.state.model

    def record(self, row: OutcomeRow) -> Forecast | None:
        """Let the model that answers, and the one being loaded, learn from a row that is on disk.

        Returns:
            For a submission, the forecast as it stood before the job was known.
        """
        if self._missed is not None:
            self._missed.append(row)
        return None if self.state.model is None else self.state.model.record(row)

    async def start(self) -> None:
        """Put the best usable model in place: the champion, else the previous one, else the fallback."""
        await self._follow_alias()
        for alias in self._options.aliases[1:]:
            if self.state.model is None and not (self._options.optional and self._seen is None):
                reason = self.state.reason
                if not await self._try_alias(alias):
                    self.state = replace(self.state, reason=reason)
                else:
                    self._enter(
                        replace(self.state, origin=Origin.LAST_GOOD, reason=f"{reason}; '{alias}' answers")
                    )
        if self.state.model is None:
            await self._fall_back()

    async def poll(self) -> None:
        """Follow the alias file where it has changed, or where it is time to try again."""
        due = (
            self.state.origin is not Origin.CHAMPION
            and self._clock() - self._tried_s >= self._options.retry_s
        )
        if due or self._signature() != self._seen:
            await self._follow_alias()
            if self.state.model is None:
                await self._fall_back()

    async def run(self, poll_s: float) -> None:
        """Poll for ever; an error of one round is logged and does not end the next."""
        while True:
            await asyncio.sleep(poll_s)
            try:
                await self.poll()
            except Exception as error:  # the watch must outlive whatever a half-written store raises
                self._logger.error("polling the alias file failed", exc_info=error)

    async def _follow_alias(self) -> None:
        self._seen = self._signature()
        self._tried_s = self._clock()
        before = self.state
        if self._options.optional and self._seen is None and before.model is None:
            self.state = replace(before, reason="no bundle is published")
            return
        if await self._try_alias(self._options.aliases[0]):
            if before.origin is not Origin.CHAMPION or before.model is not self.state.model:
                self._enter(replace(self.state, origin=Origin.CHAMPION, reason=""))
        elif self.state.origin is Origin.CHAMPION:
            self._enter(replace(self.state, origin=Origin.LAST_GOOD))

    async def _try_alias(self, alias: str) -> bool:
        """Put the bundle that an alias names in place; on failure keep what is there and note the reason."""
        try:
            ref = await asyncio.to_thread(self._store.resolve, alias)
            current = self.state.model
            source = (ref.version, ref.digest)
            if current is not None and current.source == source:
                return True
            await self._exchange(ref.directory, source)
        except Exception as error:  # whatever a bundle does, the model in service stays
            self._note_failure(alias, error)
            return False
        return True

    async def _fall_back(self) -> None:
        reason = self.state.reason
        if self._options.fallback is None:
            return
        try:
            await self._exchange(self._options.fallback, None)
        except Exception as error:  # as above
            self._note_failure("fallback", error)
            self.state = replace(self.state, reason=f"{reason}; fallback: {self.state.reason}")
            return
        self._enter(replace(self.state, origin=Origin.FALLBACK, reason=reason))

    async def _exchange(self, directory: Path, source: tuple[str, str] | None) -> None:
        async with self._writing:  # between two recordings, so that each row is replayed or missed, not both
            position = self._log.position()
            still_open = list(self._open_jobs())
            self._missed = []
        try:
            model, replayed = await asyncio.to_thread(self._prepare, directory, source, position, still_open)
            for row in self._missed:
                model.record(row)
        finally:
            missed, self._missed = self._missed, None
        self.state = replace(self.state, model=model, replayed=replayed + len(missed))
        self._telemetry.count_load("loaded")

    def _prepare(
        self,
        directory: Path,
        source: tuple[str, str] | None,
        position: LogPosition,
        still_open: list[OutcomeRow],
    ) -> tuple[S, int]:
        model = self._load(directory, source)
        rows = self._log.read(since_s=model.info.trained_until_s, until=position)
        replayed = model.replay(rows, still_open)
        model.warm(self._clock())
        return model, replayed

    def _enter(self, state: SlotState[S]) -> None:
        """Take up a state, and tell the log and the metrics."""
        self.state = state
        if state.model is None:
            return
        info, clock = state.model.info, self._clock
        self._logger.info(
            "model in service", target=self.target, version=info.version, digest=info.digest,
            origin=state.origin.value, reason=state.reason, replayed=state.replayed,
        )  # fmt: skip
        created_s = _epoch(info.created_at)
        self._telemetry.set_model(
            self.target,
            {
                "name": info.name, "version": info.version, "digest": info.digest,
                "feature_spec": info.feature_spec, "origin": state.origin.value,
            },
            age_s=lambda: clock() - created_s,
            data_age_s=lambda: clock() - info.trained_until_s,
        )  # fmt: skip

    def _note_failure(self, what: str, error: Exception) -> None:
        text = str(error) if isinstance(error, PredictorError) else f"{type(error).__name__}: {error}"
        code = error.code if isinstance(error, PredictorError) else "unexpected"
        self._telemetry.count_load(code)
        reason = f"{what}: [{code}] {text}"
        if reason != self.state.reason:  # a retry that meets the same fault says nothing new
            self._logger.warning(
                "bundle cannot be used", target=self.target, wanted=what, code=code, reason=text
            )
        self.state = replace(self.state, reason=reason)

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self._options.alias_file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


_RETRY = (("Retry-After", "5"),)


def _epoch(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return math.nan
