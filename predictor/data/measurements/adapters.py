"""This module reads the memory of adapter methods on one language model (peft_methods.csv.gz)."""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from predictor.contracts.memory import MemoryRequest, PeakKind
from predictor.contracts.workload import (
    AttentionKernel,
    Checkpointing,
    LoraTargets,
    LossKernel,
    Method,
    Recipe,
    TrainingSpec,
    TransformerSpec,
)
from predictor.data.measurements.base import MeasuredRuns

COLUMNS = ("file", "task", "model", "bs", "seq", "gc", "peft", "r", "tp", "total", "mem_max", "status")
CAPACITY_MIB = 81_920.0
_SHAPE = TransformerSpec(
    layers=28, hidden=3072, heads=24, kv_heads=8, ffn=8192, vocabulary=128256, head_dim=128,
    tied_embeddings=True,
)  # fmt: skip
_MODEL = "Llama-3.2-3B"


def read_adapters(frame: pd.DataFrame) -> tuple[MeasuredRuns, ...]:
    """Return the runs on the language model; the group is the adapter method."""
    ours = frame["model"].astype(str).str.contains(_MODEL).to_numpy()
    done = (frame["status"].astype(str) == "success").to_numpy() & (frame["mem_max"] > 0).to_numpy()
    kept = frame[ours & done].reset_index(drop=True)
    return (
        MeasuredRuns(
            name="peft_methods", kind=PeakKind.ALLOCATED,
            requests=tuple(_request(row) for row in kept.to_dict("records")),
            peak_mib=kept["mem_max"].to_numpy(dtype=np.float64) / 2.0**20,
            is_oom=np.zeros(len(kept), dtype=bool),
            groups=tuple(kept["peft"].fillna("FULL").astype(str)), families=(), capacity_mib=CAPACITY_MIB,
            dry_run_mib=np.empty(0),
            quarantined=Counter({
                "model without a shape": int((~ours).sum()), "not successful": int((ours & ~done).sum()),
            }),
        ),
    )  # fmt: skip


def _request(row: Mapping[Hashable, Any]) -> MemoryRequest:
    method = str(row["peft"])
    full = method in ("nan", "FULL")
    run = TrainingSpec(
        method=Method.FULL if full else Method.LORA,
        recipe=Recipe.PURE_BF16, lora_rank=max(int(row["r"]), 1) if row["r"] == row["r"] else 16,
        lora_targets=LoraTargets.QV, attention=AttentionKernel.FLASH, loss=LossKernel.PLAIN,
        checkpointing=Checkpointing.FULL if row["gc"] in (True, "True") else Checkpointing.NONE,
        micro_batch=int(row["bs"]), sequence_length=int(row["seq"]),
    )  # fmt: skip
    numbers = {
        "log_trained": float(np.log(max(row["tp"], 1.0))),
        "log_added": float(np.log(max(row["total"] - 3212749824.0, 1.0))),
    }
    return MemoryRequest(model=_SHAPE, run=run, numbers=numbers, words={"method": method}, family=method)
