"""This module reads the training memory of detectors and segmentors (openmmlab_train_memory.csv.gz).

The files state a backbone, a size of images and a batch; the analytical estimate is that of the backbone.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from predictor.contracts.memory import MemoryRequest, PeakKind
from predictor.contracts.workload import Optimizer, Recipe, TrainingSpec, VisionArchitecture, VisionSpec
from predictor.data.measurements.base import MeasuredRuns

COLUMNS = ("lib", "collection", "name", "train_mem_gb", "train_batch_per_gpu", "model_type", "backbone_type",
           "backbone_depth", "backbone_arch", "crop_size", "scales", "num_classes", "optimizer",
           "with_cp", "dcn", "techniques", "train_resources", "training_data")  # fmt: skip
CAPACITY_MIB = 32_768.0
_MOST_GB = 80.0
# millions of parameters and of activations at 224 pixels, as the timm table counts them
_BACKBONES: Mapping[str, tuple[float, float]] = {
    "resnet18": (11.7, 2.5), "resnet34": (21.8, 3.7), "resnet50": (25.6, 11.1), "resnet101": (44.6, 16.2),
    "resnet152": (60.2, 22.6), "resnext50": (25.0, 14.4), "resnext101": (44.2, 21.2),
    "hrnet18": (21.3, 16.3), "hrnet32": (41.2, 22.0), "hrnet40": (57.6, 25.6), "hrnet48": (77.5, 28.6),
    "swintransformer": (28.3, 17.1), "mobilenetv2": (3.5, 6.7), "mobilenetv3": (5.5, 4.4),
    "visiontransformer": (86.6, 16.5), "regnet": (15.3, 11.3), "convnext": (28.6, 13.4),
    "pyramidvisiontransformer": (24.5, 15.0), "mixvisiontransformer": (25.4, 20.0), "darknet": (41.6, 7.4),
}  # fmt: skip
_OTHER = (30.0, 13.0)


def read_detectors(frame: pd.DataFrame) -> tuple[MeasuredRuns, ...]:
    """Return the runs; the group is the method's collection, the family the type of its backbone."""
    memory = pd.to_numeric(frame["train_mem_gb"], errors="coerce")
    absurd, lacking = memory > _MOST_GB, ~(memory > 0)
    unread = ~(absurd | lacking) & frame["train_batch_per_gpu"].isna()
    kept = frame[~(absurd | lacking | unread)].reset_index(drop=True)
    return (
        MeasuredRuns(
            name="openmmlab", kind=PeakKind.ALLOCATED,
            requests=tuple(_request(row) for row in kept.to_dict("records")),
            peak_mib=pd.to_numeric(kept["train_mem_gb"]).to_numpy(dtype=np.float64) * 1024.0,
            is_oom=np.zeros(len(kept), dtype=bool), groups=tuple(kept["collection"].astype(str)),
            families=tuple(kept["backbone_type"].fillna("none").astype(str)), capacity_mib=CAPACITY_MIB,
            dry_run_mib=np.empty(0),
            quarantined=Counter({
                f"more than {_MOST_GB:.0f} GB per GPU": int(absurd.sum()), "no memory": int(lacking.sum()),
                "no configuration": int(unread.sum()),
            }),
        ),
    )  # fmt: skip


def _request(row: Mapping[Hashable, Any]) -> MemoryRequest:
    kind = re.sub(r"v1[cdb]$|[^a-z0-9]", "", str(row["backbone_type"]).lower())
    depth = _number(row["backbone_depth"])
    parameters_m, activations_m = _BACKBONES.get(
        f"{kind}{'' if depth is None else int(depth)}", _BACKBONES.get(kind, _OTHER)
    )
    width, height = _size(row)
    model = VisionSpec(
        parameter_count=parameters_m * 1e6, activation_count=activations_m * 1e6, image_size=224,
        architecture=VisionArchitecture.UNKNOWN,
    )  # fmt: skip
    optimizer = Optimizer.ADAMW if "adam" in str(row["optimizer"]).lower() else Optimizer.MOMENTUM
    fp16 = bool(re.search(r"fp16|amp", str(row["name"])))
    run = TrainingSpec(
        recipe=Recipe.AMP if fp16 else Recipe.FP32, optimizer=optimizer,
        micro_batch=int(_number(row["train_batch_per_gpu"]) or 1),
        image_size=max(int((width * height) ** 0.5), 32),
    )  # fmt: skip
    numbers = {"log_pixels": float(np.log(width * height)), "backbone_depth": depth,
               "classes": _number(row["num_classes"])}  # fmt: skip
    words = {name: str(row[column]) for name, column in (
        ("name", "name"), ("collection", "collection"), ("method", "model_type"), ("lib", "lib"),
        ("backbone", "backbone_type"), ("arch", "backbone_arch"), ("data", "training_data"),
        ("checkpoint", "with_cp"), ("deformable", "dcn")) if row[column] == row[column]}  # fmt: skip
    return MemoryRequest(
        model=model,
        run=run,
        words=words,
        family=str(row["backbone_type"]),
        numbers={name: value for name, value in numbers.items() if value is not None},
    )


def _size(row: Mapping[Hashable, Any]) -> tuple[float, float]:
    """Return the edges of what is trained on: the crop, else the (first) scale, in pixels."""
    for column in ("crop_size", "scales"):
        found = [float(value) for value in re.findall(r"\d+(?:\.\d+)?", str(row[column]))][:2]
        if len(found) == 2 and min(found) >= 32:
            return found[0], found[1]
    return 1333.0, 800.0


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return None if math.isnan(number) else number
