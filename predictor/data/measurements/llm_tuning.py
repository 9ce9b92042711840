"""This module reads fine-tuning runs of language models on 80 GB cards (llm_finetune_a100_80gb.csv.gz)."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gamma

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

COLUMNS = ("model_name_or_path", "num_gpus", "per_device_train_batch_size", "torch_dtype", "framework_config",
           "peft_method", "r", "mem_nvidia_mem_reserved", "mem_peak_torch_mem_alloc_in_bytes",
           "train_runtime", "sequence_length", "source_file")  # fmt: skip
CAPACITY_MIB = 81_920.0
_POOL_MIB = 80_600.0  # readings above it are the allocator's pool
_MIB = 2.0**20
_PACKED = 4096  # tokens of packed sequences, and the most that any sequence has
# its decoder takes the loss in the model's precision; all others copy logits to 32 bits, as autocast does
_HALF_LOGITS = ("santacoder",)
_AUTOCAST = ("bf16", "fp16")
_SAMPLES = 4000  # of a run whose lengths vary

# shapes as their public configuration files state them, by a word of the model's name
_SHAPES: Mapping[str, tuple[str, TransformerSpec]] = {
    "santacoder": ("santacoder", TransformerSpec(
        layers=24, hidden=2048, heads=16, kv_heads=1, ffn=8192, vocabulary=49280, gated=False, positions=2048,
        biases="all", norm_biases=True, tied_embeddings=True)),
    "mistral": ("mistral-7b", TransformerSpec(
        layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=32000, sliding_window=4096)),
    "mixtral": ("mixtral-8x7b", TransformerSpec(
        layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=32000, experts=8,
        experts_per_token=2)),
    "llama-2-70b": ("llama-2-70b", TransformerSpec(
        layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocabulary=32000)),
    "llama-3-8b": ("llama-3-8b", TransformerSpec(
        layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256)),
    "powerlm-3b": ("powerlm-3b", TransformerSpec(
        layers=40, hidden=2304, heads=36, kv_heads=36, ffn=9216, vocabulary=49152, tied_embeddings=True)),
}  # fmt: skip


def read_llm_tuning(frame: pd.DataFrame) -> tuple[MeasuredRuns, ...]:
    """Return two sets: peaks that the device showed, and peaks of tensors that torch counted.

    A run without a runtime died for want of memory. The group is the base model, quantised or not.
    """
    rows = frame.to_dict("records")
    found = [_shape(str(row["model_name_or_path"])) for row in rows]
    known = np.array([shape is not None for shape in found])
    is_oom = frame["train_runtime"].isna().to_numpy()
    used = frame["mem_nvidia_mem_reserved"].to_numpy(dtype=np.float64)
    torch = frame["mem_peak_torch_mem_alloc_in_bytes"].to_numpy(dtype=np.float64) / _MIB
    sets = []
    for name, kind, peak in (("smi", PeakKind.USED, used), ("torch_peak", PeakKind.ALLOCATED, torch)):
        pooled = (peak > _POOL_MIB) & ~is_oom if kind is PeakKind.USED else np.zeros(len(rows), dtype=bool)
        lost = ~is_oom & ~np.isfinite(peak)
        kept = np.flatnonzero(known & ~pooled & ~lost)
        sets.append(MeasuredRuns(
            name=f"llm_finetune_{name}", kind=kind,
            requests=tuple(_request(rows[at], *found[at]) for at in kept),  # type: ignore[misc]
            peak_mib=peak[kept], is_oom=is_oom[kept],
            groups=tuple(found[at][0] for at in kept), families=(),  # type: ignore[index]
            capacity_mib=CAPACITY_MIB, dry_run_mib=np.empty(0),
            quarantined=Counter({
                "model without a shape": int((~known).sum()), "no peak recorded": int((known & lost).sum()),
                "pool at the card's limit": int((known & pooled).sum()),
            }),
        ))  # fmt: skip
    return tuple(sets)


def _shape(name: str) -> tuple[str, TransformerSpec] | None:
    lower = name.lower().rsplit("/", 1)[-1].replace("meta-", "")
    return next((found for word, found in _SHAPES.items() if word in lower), None)


def _request(row: Mapping[Hashable, Any], group: str, model: TransformerSpec) -> MemoryRequest:
    config = str(row["framework_config"])
    method = Method.FULL
    if str(row["peft_method"]) == "lora":
        # fms-acceleration quantises the scales too; GPTQ in 4 bits holds groups of 128: about as much
        method = Method.QLORA_NF4_DOUBLE if "bnb" in config or "gptq" in config else Method.LORA
    gpus, batch = int(row["num_gpus"]), int(row["per_device_train_batch_size"])
    liger, fast = "liger" in config, "foak" in config
    run = TrainingSpec(
        method=method, recipe=Recipe.PURE_BF16,
        lora_rank=int(row["r"]) if row["r"] == row["r"] else 16, lora_targets=LoraTargets.ATTENTION,
        checkpointing=Checkpointing.FULL, attention=AttentionKernel.FLASH,
        loss=LossKernel.CHUNKED if liger else LossKernel.FUSED if fast else LossKernel.PLAIN,
        micro_batch=batch, sequence_length=longest(float(row["sequence_length"]), batch,
                                                   padded="padding-free" not in config),
        data=gpus, zero_stage=3 if gpus > 1 else 0,
        half_logits=group in _HALF_LOGITS and not any(str(row.get(name)) == "True" for name in _AUTOCAST),
    )  # fmt: skip
    words = {"framework": config.replace("-", "_"), "dtype": str(row["torch_dtype"]), "method": str(method),
             "stack": str(row["source_file"])}  # fmt: skip
    return MemoryRequest(model=model, run=run, words=words, family=group)


def longest(mean: float, batch: int, *, padded: bool) -> int:
    """Return the sequence length that stands for the largest batch of a run, tokens.

    The file states means. Packed sequences are all as long; of others the largest batch sets the peak.
    Lengths are taken as exponential: a padded batch is as long as its longest sample, whose mean over
    batches is stated; without padding the tokens of a batch add up.

    Args:
        mean: stated length: of the batch where padded, of a sample where not.
    """
    if mean >= _PACKED or mean == int(mean):
        return int(mean)
    if padded:
        harmonic = sum(1.0 / number for number in range(1, batch + 1))
        ratio = (math.log(_SAMPLES) + np.euler_gamma) / harmonic
    else:
        ratio = float(gamma.ppf(1.0 - batch / _SAMPLES, batch)) / batch
    return min(math.ceil(mean * ratio), _PACKED)
