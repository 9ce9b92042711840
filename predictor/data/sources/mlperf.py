"""This module reads parsed MLPerf Training and HPC result logs: one training run per row.

Notes:
    Runs have a duration and a description of the system but no queue: they were submitted when they
    started. Some logs carry a clock that counts from the boot of the machine; such runs get the first
    day of their round's month as ``submitted_at`` and no start. Rounds, not times, split these data.
    Aborted runs are FAILED; runs without duration cannot be read as jobs.
"""

from dataclasses import dataclass

import pandas as pd

from predictor.contracts.job import JobState
from predictor.data.sources.base import ReadOptions, ReadResult
from predictor.data.sources.delimited import header_of, read_marked
from predictor.data.sources.logfile import LogFile
from predictor.data.sources.raw import RawRecords
from predictor.data.sources.times import from_epoch

MARKS = frozenset({"round", "org", "system", "benchmark", "run", "run_start_ms", "duration_s", "run_status"})
STATUS = {
    "success": JobState.COMPLETED,
    "aborted": JobState.FAILED, "abort": JobState.FAILED, "fail": JobState.FAILED,
}  # fmt: skip
PUBLISHED = {
    "training-v0.7": "2020-07", "training-v1.0": "2021-06", "training-v1.1": "2021-12",
    "training-v2.0": "2022-06", "training-v2.1": "2022-11", "training-v3.0": "2023-06",
    "training-v3.1": "2023-11", "training-v4.0": "2024-06", "training-v4.1": "2024-11",
    "training-v5.0": "2025-06", "training-v5.1": "2025-11",
    "hpc-v0.7": "2020-11", "hpc-v1.0": "2021-11", "hpc-v2.0": "2022-11", "hpc-v3.0": "2023-11",
}  # fmt: skip
_REAL_CLOCK_FROM_MS = 1.4e12  # 2014: MLPerf began in 2018, smaller numbers count from a boot


@dataclass(frozen=True, slots=True, kw_only=True)
class MlperfReader:
    """Reader of MLPerf runs."""

    name: str = "mlperf"
    takes: frozenset[str] = frozenset({"delimiter"})

    def recognises(self, log: LogFile) -> bool:
        """Whether the header has the columns that mark these tables."""
        return set(header_of(log)) >= MARKS

    def read(self, log: LogFile, options: ReadOptions) -> ReadResult:
        """Read all records; see :class:`Reader`."""
        records = read_marked(log, marks=MARKS, table="table of MLPerf runs", delimiter=options.delimiter)
        raw = RawRecords(records.table, records.lines, options)
        return raw.finish(
            _columns(raw), source=self.name, stem=self.name,
            rows_read=records.rows_read, unreadable=records.bad,
        )  # fmt: skip


def _columns(raw: RawRecords) -> dict[str, object]:
    duration_s, start_ms = raw.number("duration_s"), raw.number("run_start_ms")
    raw.fault("no-duration", "the run has no duration", duration_s.isna())
    rounds = raw.text("round")
    published = pd.to_datetime(rounds.map(PUBLISHED), format="%Y-%m", utc=True)
    clock = start_ms >= _REAL_CLOCK_FROM_MS
    started = from_epoch((start_ms / 1e3).where(clock))
    raw.note("submit-time-made-up", int((~clock & published.notna()).sum()))
    nodes = raw.number("sys_number_of_nodes")
    words = raw.text("run_status")
    parts = [raw.text(field).fillna("-") for field in ("round", "org", "system", "benchmark", "run")]
    job_id = parts[0]
    for part in parts[1:]:
        job_id = job_id + "/" + part
    repeats = job_id.groupby(job_id).cumcount()
    job_id = job_id.where(repeats == 0, job_id + "#" + repeats.astype("str"))
    return {
        "job_id": job_id,
        "cluster": raw.text("system"),
        "account": raw.text("org"),
        "queue": rounds,
        "job_name": raw.text("benchmark"),
        "requested_gpus": nodes * raw.number("sys_accelerators_per_node"),
        "gpu_type": raw.text("sys_accelerator_model_name").str.lower(),
        "requested_nodes": nodes,
        "constraints": raw.text("sys_accelerator_interconnect"),
        "framework": raw.text("sys_framework"),
        "task": "training",
        "model_family": raw.text("benchmark"),
        "optimizer": raw.text("opt_name"),
        "batch_size": raw.number("global_batch_size"),
        "sequence_length": raw.number("max_sequence_length"),
        "submitted_at": started.fillna(published),
        "started_at": started,
        "ended_at": from_epoch((start_ms / 1e3 + duration_s).where(clock)),
        "elapsed_s": duration_s,
        "state": words.fillna("unknown").map(lambda word: STATUS.get(word, word.upper())).astype("str"),
        # the epochs that were run are no request: they are known only at the end, so they are left out
    }
