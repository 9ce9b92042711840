"""This module translates Slurm's job states, as words and as database integers, into ours."""

import re

import pandas as pd

from predictor.contracts.job import JobState

# Words of sacct and of the JSON shapes. An attempt that was requeued was taken from its nodes: PREEMPTED.
_WORDS = {
    "PENDING": JobState.PENDING, "REQUEUE_FED": JobState.PENDING, "REQUEUE_HOLD": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING, "SPECIAL_EXIT": JobState.PENDING,
    "RUNNING": JobState.RUNNING, "SUSPENDED": JobState.RUNNING, "COMPLETING": JobState.RUNNING,
    "CONFIGURING": JobState.RUNNING, "RESIZING": JobState.RUNNING, "SIGNALING": JobState.RUNNING,
    "STAGE_OUT": JobState.RUNNING, "STOPPED": JobState.RUNNING, "POWER_UP_NODE": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED, "FAILED": JobState.FAILED, "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "TIMEOUT": JobState.TIMEOUT, "DEADLINE": JobState.TIMEOUT,
    "CANCELLED": JobState.CANCELLED, "REVOKED": JobState.CANCELLED,
    "PREEMPTED": JobState.PREEMPTED, "REQUEUED": JobState.PREEMPTED,
    "NODE_FAIL": JobState.NODE_FAIL, "BOOT_FAIL": JobState.NODE_FAIL, "LAUNCH_FAILED": JobState.NODE_FAIL,
    "RECONFIG_FAIL": JobState.NODE_FAIL,
}  # fmt: skip

# enum job_states in slurm.h: the order is part of the database format
_NUMBERS = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
    "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
)  # fmt: skip
_BASE_STATE_BITS = 0xFF  # higher bits are flags such as COMPLETING


def translate_words(states: "pd.Series[str]") -> "pd.Series[str]":
    """Translate words such as ``CANCELLED by 1001`` or ``RUNNING,COMPLETING``; unknown ones stay as they are.

    sacct cuts long states to its column width and marks that with ``+``; such words are completed where
    only one state begins so.
    """
    codes, distinct = pd.factorize(states)
    words = [re.split(r"[ ,]", str(text).strip(), maxsplit=1)[0].upper() for text in distinct]
    translated = pd.array([*(_WORDS.get(_complete(word), word) for word in words), None], dtype="str")
    return pd.Series(translated.take(codes))


def translate_numbers(states: "pd.Series[float]") -> "pd.Series[str]":
    """Translate the integers of slurmdbd's job table; unknown ones stay as text."""

    def word(number: float) -> str:
        base = int(number) & _BASE_STATE_BITS
        return _WORDS[_NUMBERS[base]] if base < len(_NUMBERS) else str(int(number))

    return states.map(word, na_action="ignore").astype("str")


def _complete(word: str) -> str:
    if not word.endswith("+"):
        return word
    matches = [known for known in _WORDS if known.startswith(word[:-1])]
    return matches[0] if len(matches) == 1 else word
