"""This module reads peaks of image models trained in single precision on one A100 (timm_a100.csv.gz)."""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from predictor.contracts.memory import MemoryRequest, PeakKind
from predictor.contracts.workload import Recipe, TrainingSpec, VisionArchitecture, VisionSpec
from predictor.data.measurements.base import MeasuredRuns

COLUMNS = ("model", "family", "batch_size", "image_size", "parameters_m", "gmacs", "activations_m",
           "faketensor_mib", "peak_vram_mib", "suspect")  # fmt: skip
CAPACITY_MIB = 40_960.0
# families whose counted activations are outputs of linear layers and scores, not of convolutions
_ATTENTION = ("vit", "deit", "beit", "beitv", "eva", "cait", "swin", "swinv", "xcit", "flexivit", "vitamin",
              "mixer", "gmixer", "gmlp", "resmlp", "sequencer", "pit", "twins", "volo", "crossvit",
              "tnt", "convit", "visformer", "hiera", "samvit", "mvitv", "levit")  # fmt: skip


def read_timm(frame: pd.DataFrame) -> tuple[MeasuredRuns, ...]:
    """Return the runs; rows without counts are left out, suspect rows are out-of-memory labels."""
    counts = ["image_size", "parameters_m", "gmacs", "activations_m"]
    lacking = frame[counts].isna().any(axis=1) | ~(frame["peak_vram_mib"] > 0)
    kept = frame[~lacking].reset_index(drop=True)
    requests = tuple(_request(row) for row in kept.to_dict("records"))
    return (
        MeasuredRuns(
            name="timm", kind=PeakKind.USED, requests=requests,
            peak_mib=kept["peak_vram_mib"].to_numpy(dtype=np.float64),
            is_oom=kept["suspect"].to_numpy() == 1,
            groups=tuple(kept["model"].astype(str)), families=tuple(kept["family"].astype(str)),
            capacity_mib=CAPACITY_MIB, dry_run_mib=kept["faketensor_mib"].to_numpy(dtype=np.float64),
            quarantined=Counter({"counts or peak missing": int(lacking.sum())}),
        ),
    )  # fmt: skip


def _request(row: Mapping[Hashable, Any]) -> MemoryRequest:
    family = str(row["family"])
    model = VisionSpec(
        parameter_count=row["parameters_m"] * 1e6, activation_count=row["activations_m"] * 1e6,
        image_size=int(row["image_size"]), macs=row["gmacs"] * 1e9,
        architecture=VisionArchitecture.ATTENTION if family in _ATTENTION else VisionArchitecture.CONVOLUTION,
    )  # fmt: skip
    run = TrainingSpec(recipe=Recipe.FP32, micro_batch=int(row["batch_size"]),
                       image_size=int(row["image_size"]))  # fmt: skip
    name = str(row["model"])
    return MemoryRequest(
        model=model, run=run, words={"model": name, "family": family}, signature=name, family=family,
        numbers={"dry_run_mib": float(row["faketensor_mib"])},
    )  # fmt: skip
