"""This module forecasts every job of a log as of its submission, with models refitted as the log grows.

Refits come at a geometric series of ended jobs, so that a log of any length costs a few dozen of them.
Outcomes are learned at the times of the log: the simulated schedule differs from it, and forecasts for each
schedule anew would cost a replay per policy. A forecast never uses a job that had not ended in the log.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from predictor.contracts.forecast import LEVELS, level_weights
from predictor.features.request import request_columns
from predictor.features.rowwise import Vocabulary
from predictor.forecasting.duration import DurationSettings
from predictor.forecasting.prequential import PendingOutcomes, replay
from predictor.forecasting.training import MIN_TRAINING_ROWS, prepare_log, train_on_log
from predictor.simulation.trace import FloatArray

GROWTH = 1.3
_FIRST_ROWS = max(MIN_TRAINING_ROWS, 1000)
_VOCABULARY_SHARE = 0.02
Progress = Callable[[str, float], None]


def prequential_forecasts(
    frame: pd.DataFrame,
    *,
    settings: DurationSettings | None = None,
    growth: float = GROWTH,
    progress: Progress | None = None,
) -> FloatArray:
    """Return the quantiles of each row's duration as of its submission, shape (n, L).

    Args:
        frame: canonical job table.
        growth: the model is fitted anew when so many times as many jobs have ended.
        progress: called with a text and the share done.

    Returns:
        Seconds at LEVELS; rows of NaN before the first model, where nothing but the limit is known.
    """
    chosen = settings or DurationSettings()
    tell = progress or (lambda _step, _share: None)
    requests = request_columns(frame)
    early = requests.submitted_s <= np.quantile(requests.submitted_s, _VOCABULARY_SHARE)
    vocabulary = Vocabulary.learn(request_columns(frame[early]))
    tell("read the history", 0.0)
    log = prepare_log(frame, vocabulary, cancelled_ends_job=chosen.cancelled_ends_job)
    cuts = refit_times(log.outcomes.end_s, float(requests.submitted_s.max()), growth)
    quantiles_s = np.full((len(frame), len(LEVELS)), np.nan)
    online, pending = None, PendingOutcomes()
    for at, cut_s in enumerate(cuts):
        tell(f"forecast, model {at + 1} of {len(cuts)}", at / len(cuts))
        until_s = cuts[at + 1] if at + 1 < len(cuts) else np.inf
        submitted_s = log.outcomes.submitted_s
        rows = np.flatnonzero((submitted_s >= cut_s) & (submitted_s < until_s))
        model = train_on_log(log, vocabulary, cut_s=cut_s, settings=chosen, online=online)
        online = model.online
        if len(rows):
            quantiles_s[rows] = replay(
                model.experts, online, log.features.take(rows), log.outcomes.take(rows), pending=pending
            ).quantiles_s
    return quantiles_s


def refit_times(end_s: FloatArray, last_s: float, growth: float) -> list[float]:
    """Return when the model is fitted anew, before ``last_s``: after 1000 ended jobs, then geometrically."""
    ends = np.sort(end_s[~np.isnan(end_s)])
    count, cuts = _FIRST_ROWS, []
    while count < len(ends):
        if ends[count] < last_s:
            cuts.append(float(ends[count]))
        count = int(count * growth) + 1
    return sorted(set(cuts))


def expected_s(quantiles_s: FloatArray) -> FloatArray:
    """Return the expected duration of each forecast, shape (n,); NaN where there is none."""
    return np.asarray(quantiles_s @ level_weights(np.array(LEVELS)))
