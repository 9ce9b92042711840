"""This module lets one retraining run at a time; the lock falls with its holder, however that ends."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from predictor.errors import LockHeldError


@contextmanager
def hold_lock(path: Path, *, now_text: str) -> Iterator[None]:
    """Hold the lock while the block runs.

    Args:
        path: the lock file; it stays, only the lock on it comes and goes.
        now_text: the time, for the message that another run gets.

    Raises:
        LockHeldError: another process holds it; says which and since when.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise LockHeldError(
                f"another retraining {_holder(file.read())} holds the lock '{path}'; wait for it to end"
            ) from error
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "since": now_text}))
        file.flush()
        yield


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"(process {int(holder['pid'])}, since {holder['since']})"
    except (ValueError, TypeError, KeyError):
        return "(process unknown)"
