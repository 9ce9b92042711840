"""This module is the memory forecaster in service: it answers, and learns from the peaks of ended jobs."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from predictor.contracts.memory import MemoryForecast, MemoryObservation, MemoryRequest, PeakKind
from predictor.contracts.workload import Method, TrainingSpec, TransformerSpec
from predictor.errors import BundleCorruptError
from predictor.forecasting.memory.bundle import MemoryBundle, read_memory_bundle
from predictor.forecasting.memory.gpus import find_gpu
from predictor.forecasting.memory.jobs import job_request
from serving.outcome_rows import FINISHED, OutcomeRow
from serving.ports import BundleFacts, Forecast

MOST_REPLAYED = 2000  # newest peaks that a fresh bundle learns from; older ones are in the next bundle


class ServedMemory:
    """A memory forecaster that follows the outcome log.

    Args:
        bundle: the bundle that was read.
        source: its version and digest as the alias file records them.
    """

    def __init__(self, bundle: MemoryBundle, source: tuple[str, str] | None = None) -> None:
        self._info = bundle.info
        self._model = bundle.model
        self.source = source

    @property
    def info(self) -> BundleFacts:
        """Identity of the bundle."""
        return self._info

    @property
    def kind(self) -> PeakKind:
        """What its peaks count."""
        return self._model.kind

    def predict(
        self, requests: Sequence[MemoryRequest], *, risk: float, devices: Mapping[str, float]
    ) -> list[MemoryForecast]:
        """Forecast each request; the usual risk is asked for as the online calibration holds it.

        Raises:
            ArgumentError: a spec cannot be.
        """
        usual = risk == self._model.settings.risk
        return self._model.predict(requests, risk=None if usual else risk, devices=devices)

    def record(self, row: OutcomeRow) -> Forecast | None:
        """Learn from the peak of an ended job; other rows teach nothing."""
        observation = observation_of(row, self._model.kind)
        if observation is not None:
            self._model.observe(observation)
        return None

    def replay(self, rows: Iterable[OutcomeRow], open_jobs: Iterable[OutcomeRow]) -> int:  # noqa: ARG002
        """Learn from the newest peaks of jobs that ended after training; return their number."""
        until_s = self.info.trained_until_s
        newest = deque(
            (row for row in rows if row.moment_s > until_s and _has_peak(row, self._model.kind)),
            maxlen=MOST_REPLAYED,
        )
        for row in newest:
            self.record(row)
        return len(newest)

    def warm(self, now_s: float) -> None:  # noqa: ARG002
        """Forecast with and without a spec, so that no caller waits for the first tree.

        Raises:
            BundleCorruptError: an answer is no size.
        """
        model = TransformerSpec(layers=2, hidden=64, heads=2, kv_heads=2, ffn=128, vocabulary=1000)
        run = TrainingSpec(method=Method.FULL)
        asked = [MemoryRequest(), MemoryRequest(model=model, run=run)]
        for answer in self._model.predict(asked, risk=0.05, devices={"card": 40960.0}):
            if not (math.isfinite(answer.upper_mib) and 0 < answer.p50_mib <= answer.upper_mib):
                raise BundleCorruptError(f"the bundle's first forecast is no size: {answer}")


def load_memory(directory: Path, source: tuple[str, str] | None) -> ServedMemory:
    """Read and verify a bundle, and make it ready to answer."""
    bundle = read_memory_bundle(directory, expected_digest=None if source is None else source[1])
    return ServedMemory(bundle, source)


def observation_of(row: OutcomeRow, kind: PeakKind) -> MemoryObservation | None:
    """Return what a row teaches about peaks of this kind, None = nothing."""
    peak_mib = _peak_mib(row, kind)
    if row.event != FINISHED or peak_mib is None or not peak_mib > 0:
        return None
    gpu = None if row.gpu_type is None or kind is PeakKind.HOST else find_gpu(row.gpu_type)
    return MemoryObservation(
        request=job_request(row.request(), row.workload(), kind=kind), peak_mib=peak_mib,
        is_oom=kind is PeakKind.HOST and row.state == "OUT_OF_MEMORY",
        capacity_mib=None if gpu is None else gpu.usable_mib,
    )  # fmt: skip


def _has_peak(row: OutcomeRow, kind: PeakKind) -> bool:
    return row.event == FINISHED and _peak_mib(row, kind) is not None


def _peak_mib(row: OutcomeRow, kind: PeakKind) -> float | None:
    """Return the recorded peak of this kind; jobs report what the device uses, never allocated tensors."""
    if kind is PeakKind.HOST:
        return row.peak_host_memory_mib
    return row.peak_vram_mib if kind is PeakKind.USED else None
