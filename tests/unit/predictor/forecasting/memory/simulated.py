"""This module simulates runs of known memory: a context, four copies of the parameters, and activations."""

import numpy as np
import numpy.typing as npt

from predictor.contracts.memory import MemoryObservation, MemoryRequest
from predictor.contracts.workload import Recipe, TrainingSpec, VisionArchitecture, VisionSpec
from predictor.forecasting.memory.expert import ExpertSettings
from predictor.forecasting.memory.forecaster import MemorySettings
from predictor.forecasting.memory.residual import ResidualSettings

MIB = 2.0**20
FAST = ExpertSettings(
    residual=ResidualSettings(rounds=60, seeds=1, spread_rounds=20, learning_rate=0.1),
    small=ResidualSettings(rounds=30, seeds=1, spread_rounds=10, leaves=4),
)
FAST_SETTINGS = MemorySettings(expert=FAST)


def vision_request(
    parameters: float, activations: float, batch: int, name: str, family: str
) -> MemoryRequest:
    """Return a request with a full spec."""
    return MemoryRequest(
        model=VisionSpec(parameter_count=parameters, activation_count=activations, image_size=0,
                         architecture=VisionArchitecture.COUNTED),
        run=TrainingSpec(recipe=Recipe.FP32, micro_batch=batch),
        words={"model": name, "family": family}, signature=name, family=family,
    )  # fmt: skip


def simulate(
    models: int, seed: int, *, noise: float = 0.1, batches: tuple[int, ...] = (8, 32)
) -> list[MemoryObservation]:
    """Return runs of models of six families; each model's errors are drawn once and shared by its batches."""
    random = np.random.default_rng(seed)
    runs = []
    for at in range(models):
        parameters, activations = 10 ** random.uniform(6.5, 8.5), 10 ** random.uniform(6, 7.5)
        ratio = float(np.exp(random.normal(0.0, noise)))
        for batch in batches:
            peak = 1500.0 + ratio * (16 * parameters + 4 * activations * batch) / MIB
            name = f"net{at}"
            request = vision_request(parameters, activations, batch, name, f"kin{at % 6}")
            runs.append(MemoryObservation(request=request, peak_mib=peak))
    return runs


def errors_in_groups(groups: int, rows: int, seed: int) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return scores with a share common to each group, and the names of the groups."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(groups, 1)) + 0.5 * random.normal(size=(groups, rows))
    return scores.ravel(), [f"g{at}" for at in range(groups) for _ in range(rows)]
