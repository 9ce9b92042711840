"""This module compiles hot loops with numba, cached on disk, behind a typed decorator."""

import hashlib
import os
import pickle
import uuid
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.serialize import dumps

F = TypeVar("F", bound=Callable[..., object])

_DIGEST_BYTES = hashlib.sha256().digest_size


def compiled(function: F) -> F:
    """Compile a numeric loop to machine code; the plain Python function stays at ``.py_func``.

    numba keeps machine code until the file of the function itself changes, although functions and constants
    of other files are compiled into it. The name under which it is kept therefore holds the digest of all
    sources, so that nothing runs as it was before an upgrade in place. Processes that compile at the same
    time keep theirs apart (`MachineCode`).
    """
    function.__qualname__ = f"{function.__qualname__}_{_package_digest()}"
    dispatcher: Any = numba.njit(cache=True, error_model="numpy")(function)
    if dispatcher is not function:  # NUMBA_DISABLE_JIT leaves functions as they are
        kept = dispatcher._cache
        kept._cache_file = MachineCode(Path(kept.cache_path), kept._impl.filename_base)
    return cast(F, dispatcher)


class MachineCode:
    """Keeps the machine code of a function on disk, one file for each signature and kind of processor.

    numba numbers these files by an index that it reads, adds to and writes back. Two processes that compile
    two signatures at once take the same number, and from then on one signature runs the code of another:
    wrong results or a crash, until the sources change (numba issues 4807 and 10128). Here the name of a file
    follows from what it holds, it is put in place as a whole, and what it says of itself is compared.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder = folder
        self._base = base

    def load(self, key: object) -> object | None:
        """Return what was kept under a key, or None where there is none that is whole."""
        try:
            kept = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        digest, pickled = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
        if digest != hashlib.sha256(pickled).digest():
            return None
        said, content = pickle.loads(pickled)  # noqa: S301 - written by this installation alone
        return content if said == _said(key) else None

    def save(self, key: object, content: object) -> None:
        """Keep content under a key; where the disk does not take it, warn and go on."""
        path = self._path(key)
        unfinished = path.with_suffix(f".{uuid.uuid4().hex[:16]}")
        pickled = cast(Callable[[object], bytes], dumps)((_said(key), content))
        try:
            unfinished.write_bytes(hashlib.sha256(pickled).digest() + pickled)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            text = f"machine code is not kept in {self._folder}, each start compiles anew: {error.strerror}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _path(self, key: object) -> Path:
        return self._folder / f"{self._base}.{hashlib.sha256(_said(key).encode()).hexdigest()[:16]}.nbc"


def _said(key: object) -> str:
    """Return what a key of numba holds (signature, processor, digest of bytecode) and what it leaves out."""
    return f"{numba.__version__} {os.environ.get('NUMBA_BOUNDSCHECK', '')} {key!r}"


def source_digest(root: Path) -> str:
    """Return a short digest of all Python sources below a folder, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _package_digest() -> str:
    return source_digest(Path(__file__).parents[1])
