"""This module compiles hot loops with numba, cached on disk, behind a typed decorator."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a numeric loop to machine code; the plain Python function stays at ``.py_func``.

    numba keeps machine code until the file of the function itself changes, although functions and constants
    of other files are compiled into it. The name under which it is kept therefore holds the digest of all
    sources, so that nothing runs as it was before an upgrade in place.
    """
    function.__qualname__ = f"{function.__qualname__}_{_package_digest()}"
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))


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
