"""This module makes small tables that teach GPU memory and placements, with a known truth."""

from pathlib import Path

import numpy as np
import pandas as pd

SHAPES = ("2", "11", "3", "12", "111", "4", "13", "22", "112", "1111", "14", "23", "113", "122", "1112",
          "24", "33", "114", "123", "222", "1113", "1122")  # fmt: skip


def with_peaks(jobs: pd.DataFrame, *, rows: int = 240, noise: float = 0.03, seed: int = 0) -> pd.DataFrame:
    """Return the last jobs of a table with peaks: a size of the user's model plus some per sample."""
    random = np.random.default_rng(seed)
    frame = without_peaks(jobs).iloc[-rows:].copy()
    at = frame.index
    users = frame.loc[at, "user"].astype("category").cat.codes.to_numpy(dtype=np.float64)
    batch = random.choice([8.0, 16.0, 32.0, 64.0, 128.0], size=rows)
    frame.loc[at, "batch_size"] = batch
    frame.loc[at, "requested_gpus"] = 1.0
    frame.loc[at, "peak_vram_mib"] = (2000.0 + 700.0 * users + 60.0 * batch) * np.exp(
        noise * random.standard_normal(rows)
    )
    return frame


def without_peaks(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return a job table that says nothing of memory and models."""
    return jobs.assign(peak_vram_mib=np.nan, model_family=pd.Series(None, index=jobs.index, dtype="str"),
                       parameter_count=np.nan)  # fmt: skip


def write_placements(path: Path, *, clusters: tuple[str, ...] = ("alpha", "beta"), seed: int = 0) -> Path:
    """Write step times in which each further GPU on the fullest node costs a tenth."""
    random = np.random.default_rng(seed)
    rows = [
        {
            "app": f"app{app}", "cluster": cluster, "local_bsz": batch, "placement": shape,
            "step_time": (0.1 + 0.01 * app + 0.001 * batch) * (1.0 + 0.1 * (max(map(int, shape)) - 1))
            * float(np.exp(0.005 * random.standard_normal())),
        }
        for cluster in clusters for app in range(3) for batch in (16,) for shape in SHAPES
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(path, index=False)
    return path
