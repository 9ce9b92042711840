"""This module keeps what a retraining has finished, so that a killed one goes on where it stopped.

::

    <runs>/retrain/<key>/*.json        one file per finished step; a file is there whole, or not at all
    <runs>/retrain/<key>/challenger/   the bundle of the challenger
    <runs>/retrain/last.json           key and outcome of the last finished run

The key is a digest of all that decides the result: the data, the settings, the features and the model's
parameters. Other input is another run.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from pipelines.domain import Document
from predictor.errors import PipelineError
from predictor.forecasting.store import sync_tree

KEY_LENGTH = 16


def run_key(parts: Mapping[str, object]) -> str:
    """Return the key of a run on this input."""
    text = json.dumps(dict(parts), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


class RunState:
    """The results of one run's steps.

    Args:
        folder: folder of all retrainings.
        key: key of this one.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.key = key
        self.directory = folder / key
        self._last = folder / "last.json"

    def step(self, name: str, compute: Callable[[], Document]) -> Document:
        """Return the result of a step; it is computed only where no earlier run has finished it."""
        done = self.read(name)
        if done is not None:
            return done
        result = compute()
        self.write(name, result)
        return result

    def read(self, name: str) -> Document | None:
        """Return the result of a step, None where it was not finished."""
        return _read(self.directory / f"{name}.json")

    def write(self, name: str, result: Document) -> None:
        """Keep the result of a step."""
        _write(self.directory / f"{name}.json", result)

    def directory_step(self, name: str, compute: Callable[[Path], None]) -> Path:
        """Return the folder that a step fills; a half-filled one is filled anew."""
        final = self.directory / name
        if not final.is_dir():
            self.directory.mkdir(parents=True, exist_ok=True)
            for left in self.directory.glob(f".{name}.*"):
                shutil.rmtree(left)
            staged = Path(tempfile.mkdtemp(dir=self.directory, prefix=f".{name}."))
            compute(staged)
            sync_tree(staged)
            staged.rename(final)
        return final

    def last_finished(self) -> Document | None:
        """Return what the last finished run of this folder was."""
        return _read(self._last)

    def finish(self, outcome: Document) -> None:
        """Note that this run is finished; drop what its steps needed, and runs that were given up."""
        _write(self._last, {"key": self.key, **outcome})
        self.write("finished", outcome)
        given_up = [path for path in self._last.parent.iterdir() if not (path / "finished.json").exists()]
        for path in (*self.directory.iterdir(), *given_up):
            if path.is_dir():
                shutil.rmtree(path)

    def forget(self) -> None:
        """Remove the results of all steps, so that the run starts anew."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _read(path: Path) -> Document | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineError(f"the run file '{path}' is damaged ({error}); remove it and run again") from error
    return dict(stored)


def _write(path: Path, document: Document) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
