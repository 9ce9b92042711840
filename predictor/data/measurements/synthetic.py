"""This module reads peaks of generated networks whose layers are listed (synthetic_cnn, synthetic_mlp)."""

import ast
import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from predictor.contracts.memory import MemoryRequest, PeakKind
from predictor.contracts.workload import Recipe, TrainingSpec, VisionArchitecture, VisionSpec
from predictor.data.measurements.base import MeasuredRuns
from predictor.data.measurements.layer_lists import Convolution, ListedLayer, network_of
from predictor.data.measurements.step_replay import Network, Workspace, replay

COLUMNS = ("Filename", "Activations-Params", "Total Activations", "Total Parameters", "Batch Size",
           "Max GPU Memory (MiB)")  # fmt: skip
CAPACITY_MIB = 40_960.0
_MIB = 4 / 2.0**20  # of one element in single precision
_REPLAYED = "replayed"
_LINEAR = ("conv2d", "linear")
_KINDS = {
    "conv2d": "conv", "batchnorm2d": "norm", "batch_normalization": "norm", "dropout": "dropout",
    "linear": "linear", "adaptive_avg_pool2d": "other", "softmax": "other",
}  # fmt: skip
_ALIGNMENTS = (2, 4, 8, 16, 32)  # channels that kernels on tensor cores like
# kernels on tensor cores copy what they read and write into another order; which kernel runs is not stated
_COPIES = Workspace(forward_share=0.3, backward_share=1.0)

# keys of a name such as "input:61_output:12_arch:pyramid_batch:777.out"
_NAMED = ("arch", "act", "dropout", "batchnorm")
_NUMBERED = ("input_channels", "num_classes", "depth", "base_filters", "input_size", "input", "output")
_FIELD = re.compile(rf"(?:^|_)({'|'.join((*_NUMBERED, *_NAMED))}):([A-Za-z]+|[\d.]+\d|\d)")


def read_synthetic(frame: pd.DataFrame) -> tuple[MeasuredRuns, ...]:
    """Return the runs; every network is a group of its own."""
    is_cnn = bool(frame["Filename"].astype(str).str.startswith("input_channels").any())
    layers = [_layers(text) for text in frame["Activations-Params"].astype(str)]
    listed = np.array([bool(found) for found in layers])
    peak = frame["Max GPU Memory (MiB)"].to_numpy(dtype=np.float64)
    is_oom = (
        frame["Status"].astype(str).str.startswith("OOM").to_numpy()
        if "Status" in frame
        else np.zeros(len(frame), dtype=bool)
    )
    counted = frame["Total Parameters"].to_numpy() > 0
    unseen = ~is_oom & ~(peak > 0)
    kept = np.flatnonzero(listed & counted & ~unseen)
    rows = frame.iloc[kept].to_dict("records")
    return (
        MeasuredRuns(
            name="synthetic_cnn" if is_cnn else "synthetic_mlp", kind=PeakKind.USED,
            requests=tuple(_request(row, layers[at]) for row, at in zip(rows, kept, strict=True)),
            peak_mib=peak[kept], is_oom=is_oom[kept],
            groups=tuple(str(row["Filename"]) for row in rows), families=(),
            capacity_mib=CAPACITY_MIB, dry_run_mib=np.empty(0),
            quarantined=Counter({
                "no layers listed": int((~listed).sum()), "no parameters": int((listed & ~counted).sum()),
                "no peak recorded": int((listed & counted & unseen).sum()),
            }),
        ),
    )  # fmt: skip


def _layers(text: str) -> list[ListedLayer]:
    try:
        return [(str(kind), float(outputs), float(count)) for kind, outputs, count in ast.literal_eval(text)]
    except (ValueError, SyntaxError, TypeError):
        return []


def _request(row: Mapping[Hashable, Any], layers: list[ListedLayer]) -> MemoryRequest:
    name = str(row["Filename"])
    batch, total = int(row["Batch Size"]), sum(outputs for _, outputs, _ in layers)
    fields = dict(_FIELD.findall(name))
    edge, channels = int(fields.get("input_size", 0)), int(fields.get("input_channels", 0))
    network, sizes = network_of(layers, shape=fields.get("arch", ""), edge=edge, channels=channels)
    held, stored, slack = _replayed(network, batch, edge**2 * channels or _width(layers), bool(sizes))
    model = VisionSpec(
        parameter_count=float(row["Total Parameters"]), activation_count=max(total, 1.0), image_size=0,
        architecture=VisionArchitecture.COUNTED,
    )  # fmt: skip
    run = TrainingSpec(recipe=Recipe.FP32, micro_batch=batch)
    numbers = _numbers(name, layers) | _widest(sizes) | {"log_slack": slack}
    return MemoryRequest(model=model, run=run, words={"shape": _words(name)}, signature=name,
                         numbers=numbers, held_mib=held, stored_mib=stored)  # fmt: skip


def _replayed(
    network: Network, batch: int, elements: float, has_kernels: bool
) -> tuple[dict[str, float], dict[str, float], float]:
    """Return MiB held whatever the batch, MiB per sample, and ln of what is reserved over what is used.

    At ``batch`` they add up to what the replay reserves; workspace is what kernels add to that.
    """
    one, more = (replay(network, size, elements) for size in (1, max(batch, 2)))
    stored = {_REPLAYED: max(more.reserved_bytes - one.reserved_bytes, 0) / max(batch - 1, 1) / 2**20}
    held = {_REPLAYED: one.reserved_bytes / 2**20 - stored[_REPLAYED]}
    found = more
    if has_kernels:
        found = replay(network, batch, elements, _COPIES)
        stored["workspace"] = max(found.reserved_bytes - more.reserved_bytes, 0) / batch / 2**20
    return held, stored, math.log(found.reserved_bytes / found.peak_bytes)


def _width(layers: list[ListedLayer]) -> float:
    """Return what the first layer reads, elements per sample."""
    _, outputs, parameters = layers[0]
    return max(parameters / max(outputs, 1.0) - 1.0, 1.0)


def _widest(sizes: Sequence[Convolution]) -> dict[str, float]:
    """Return sizes of the convolution that reads and writes most, which decides on the workspace."""
    if not sizes:
        return {}
    one = max(sizes, key=lambda size: size.elements)
    return {
        "widest_in": float(one.channels_in), "widest_out": float(one.channels_out),
        "widest_edge": float(one.edge), "widest_log_weights": math.log(one.weights),
        "widest_log_mib": math.log(one.elements * _MIB),
        "most_log_work": math.log(max(size.weights * size.edge**2 for size in sizes)),
        "most_log_weights": math.log(max(size.weights for size in sizes)),
    }  # fmt: skip


def _words(name: str) -> str:
    """Return what is named, not numbered: shape, function, dropout, and normalising."""
    fields = dict(_FIELD.findall(name))
    return " ".join(f"{key}-{fields[key]}".replace("_", "") for key in _NAMED if key in fields)


def _numbers(name: str, layers: list[ListedLayer]) -> dict[str, float]:
    fields = dict(_FIELD.findall(name))
    out = {f"given_{key}": float(fields[key]) for key in _NUMBERED if key in fields}
    weights = [count for _, _, count in layers]
    total = sum(outputs for _, outputs, _ in layers)
    for kind, outputs, _ in layers:
        plain = f"share_{_KINDS.get(kind.lower(), 'function')}"
        out[plain] = out.get(plain, 0.0) + outputs / max(total, 1.0)
    pairs = [one[1] + other[1] for one, other in pairwise(layers)]
    out["share_largest_pair"] = max(pairs, default=layers[0][1]) / max(total, 1.0)
    out["largest_layer_share"] = max(weights) / max(sum(weights), 1.0)
    sizes = np.array([outputs for kind, outputs, _ in layers if kind in _LINEAR])
    out["layers"] = float(len(sizes))
    out["peak_at"] = float(sizes.argmax()) / len(sizes)
    out["per_layer_mib"] = float(np.log(max(sizes.max() * _MIB, 1e-6)))
    edge = out.get("given_input_size")
    if edge:
        channels = sizes[:-1] / edge**2 if len(sizes) > 1 else sizes / edge**2
        out["channels_max"], out["channels_mean"] = float(channels.max()), float(channels.mean())
        out["channels_last"] = float(channels[-1])
        for step in _ALIGNMENTS:
            aligned = (channels % step == 0) * channels
            out[f"aligned_{step}"] = float(aligned.sum() / channels.sum())
            out[f"widest_aligned_{step}"] = float(channels.max() % step == 0)
    return out
