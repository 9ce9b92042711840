"""This module compiles hot loops with numba, cached on disk, behind a typed decorator."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a numeric loop to machine code; the plain Python function stays at ``.py_func``."""
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))
