"""This module checks that rows are kept out by fits of the same kind as the final one."""

import numpy as np
import pytest

from predictor.forecasting.memory.expert import TrainingRows, train_expert
from tests.unit.predictor.forecasting.memory.simulated import FAST, simulate


@pytest.mark.parametrize("models", [22, 30])
def test_expected_errors_of_kept_out_rows_are_in_the_units_of_the_final_fit(models: int) -> None:
    runs = simulate(models, 1)  # 44 and 60 rows: three quarters of them are too few, and enough, for trees
    expert = train_expert(
        TrainingRows(
            requests=tuple(run.request for run in runs),
            log_mib=np.log([run.peak_mib for run in runs]),
            groups=tuple(str(run.request.signature) for run in runs),
        ),
        FAST,
    )
    final = expert.unit(*expert.inputs([run.request for run in runs]))
    assert expert.kept_out is not None
    assert np.median(expert.kept_out.unit) == pytest.approx(np.median(final), rel=0.4)
