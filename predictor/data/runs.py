"""This module tells runs of one job id apart: schedulers give the id of a job that is over to another."""

import pandas as pd

IDENTITY = ["cluster", "job_id", "attempt"]


def run_numbers(frame: pd.DataFrame) -> "pd.Series[int]":
    """Number the runs of each attempt; one that was submitted once all before it were over is another run."""
    keys = [frame[name].fillna("") if name == "cluster" else frame[name] for name in IDENTITY]
    numbers = pd.Series(0, index=frame.index)
    repeated = pd.concat(keys, axis=1).duplicated(keep=False) & frame["job_id"].notna()
    if not repeated.any():
        return numbers
    order = frame.loc[repeated, ["submitted_at", "ended_at"]].sort_values(["submitted_at", "ended_at"])
    grouped = [key.loc[order.index] for key in keys]
    over = order["ended_at"].groupby(grouped).cummax().groupby(grouped).shift()
    is_later = (order["submitted_at"] >= over) & (
        order["submitted_at"] > order["submitted_at"].groupby(grouped).shift()
    )
    numbers.loc[order.index] = is_later.astype("int64").groupby(grouped).cumsum()
    return numbers
