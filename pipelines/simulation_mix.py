"""This module changes recorded jobs for a simulation: checkpoints, costs of a restart, emergencies."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from predictor.scheduling.capacity import Pool
from predictor.simulation.trace import Trace, known_to

_EMERGENCY = "emergency"


def mixed(
    trace: Trace,
    pools: Sequence[Pool],
    *,
    checkpoint_s: float | None,
    restart_cost_s: float,
    emergencies: float,
    seed: int,
) -> Trace:
    """Return the jobs with what the command line says of all of them.

    Args:
        checkpoint_s: all jobs save their work so often; 0 = the system saves all of it; None = as recorded.
        emergencies: this share of the jobs, drawn at random, is made of class ``emergency``.
    """
    n = len(trace)
    changed = replace(known_to(trace, pools), restart_cost_s=np.full(n, restart_cost_s))
    if checkpoint_s is not None:
        changed = replace(
            changed,
            checkpoint=("application" if checkpoint_s > 0 else "system",) * n,
            checkpoint_interval_s=np.full(n, max(checkpoint_s, 0.0)),
        )
    if emergencies > 0:
        drawn = np.random.default_rng(seed).random(n) < emergencies
        classes = zip(trace.workload_class, drawn.tolist(), strict=True)
        changed = replace(changed, workload_class=tuple(_EMERGENCY if hit else name for name, hit in classes))
    return changed
