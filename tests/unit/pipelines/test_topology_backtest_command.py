"""The backtest of throughputs by GPU type: what it writes is there, and told."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from pipelines.topology_backtest import backtest_topology_file


def test_scores_of_gpu_types_are_returned_and_drawn(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [
        {"gpu": gpu, "cons": packed, "model": model, "bs": size, "sf": workers,
         "thr": speed * base * size**0.3 * workers * random.uniform(0.95, 1.05)}
        for (gpu, speed), packed, (model, base), size, workers in product(
            [("k80", 1.0), ("p100", 3.0), ("v100", 6.0)], [True, False],
            [("a", 1.0), ("b", 2.0), ("c", 5.0), ("d", 0.5)], [16, 32, 64], [1, 2]
        )
    ]  # fmt: skip
    table = tmp_path / "throughputs.csv"
    pd.DataFrame(rows).to_csv(table, index=False)
    document = backtest_topology_file(
        table, seed=0, plots=tmp_path, console=Console(quiet=True), tell=lambda _step, _share: None
    )
    splits = document["gpu_types"]["splits"]  # type: ignore[index]
    assert set(splits) == {"known_model", "new_model"}
    assert all(0 <= scores["regret"] <= 1 for split in splits.values() for scores in split["models"].values())
    json.dumps(document, allow_nan=False)
    assert (tmp_path / "gpu_types.png").stat().st_size > 1000
