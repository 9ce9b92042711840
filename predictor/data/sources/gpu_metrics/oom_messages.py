"""This module reads out-of-memory messages: what a job held and tried to get is a lower bound of its need."""

import math
import re
from dataclasses import dataclass

from predictor.data.sources.gpu_metrics.units import to_mib

_SIZE = r"(\d+(?:\.\d+)?\s*(?:[KMGT]i?B|bytes|[KMG](?![A-Za-z])))"
_START = re.compile(
    r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|RESOURCE_EXHAUSTED: Out of memory|OOM when allocating tensor|cudaErrorMemoryAllocation",
    re.IGNORECASE,
)
_TRIED = re.compile(rf"(?:[Tt]ried to allocate|trying to allocate|[Ff]ailed to allocate)\s+{_SIZE}")
_ALLOCATED = re.compile(rf"{_SIZE}\s+(?:already allocated|is allocated by PyTorch)")
_RESERVED_WHOLE = re.compile(rf"{_SIZE}\s+reserved in total by PyTorch")
_RESERVED_FREE = re.compile(rf"{_SIZE}\s+is reserved by PyTorch but unallocated")
_IN_USE = re.compile(rf"this process has\s+{_SIZE}\s+memory in use")
_TOTAL = re.compile(rf"total capacity of\s+{_SIZE}|{_SIZE}\s+total capacity")
_GPU = re.compile(r"GPU (\d+)")
_REACH = 1200  # characters; a message is one or two lines


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """One message; sizes in MiB, NaN where it does not say.

    Attributes:
        gpu: index as the process saw it, empty if not said.
        tried_mib: the request that failed. allocated_mib: tensors held then.
        reserved_mib: blocks held then, free ones among them. total_mib: size of the card.
    """

    gpu: str
    tried_mib: float
    allocated_mib: float
    reserved_mib: float
    total_mib: float

    @property
    def lower_bound_mib(self) -> float:
        """The job needs at least this much in tensors: what it held and what it asked for."""
        known = [size for size in (self.allocated_mib, self.tried_mib) if not math.isnan(size)]
        return sum(known) if known else math.nan


def find_out_of_memory(text: str) -> list[OutOfMemory]:
    """Return all out-of-memory messages of a log, in order; the lines that repeat one count once.

    Examples:
        >>> message = (
        ...     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        ...     "capacity of 79.15 GiB of which 1.10 GiB is free. Of the allocated memory 76.00 GiB is "
        ...     "allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated."
        ... )
        >>> [found.lower_bound_mib / 1024 for found in find_out_of_memory(message)]
        [78.0]
    """
    starts = [match.start() for match in _START.finditer(text)]
    found: list[OutOfMemory] = []
    last = -1
    for place, start in enumerate(starts):
        if start < last:  # inside the message before
            continue
        end = min(start + _REACH, len(text))
        for later in starts[place + 1 :]:
            # "torch.OutOfMemoryError: CUDA out of memory" names one message twice
            if later - start > 60:
                end = min(end, later)
                break
            last = later + 1
        message = _read(text[start:end])
        if not found or message != found[-1] or math.isnan(message.lower_bound_mib):
            found.append(message)
    return found


def _read(text: str) -> OutOfMemory:
    allocated = _size(_ALLOCATED, text)
    reserved = _size(_RESERVED_WHOLE, text)
    free = _size(_RESERVED_FREE, text)
    if math.isnan(reserved):
        reserved = allocated + free
    if math.isnan(allocated):
        allocated = _size(_IN_USE, text)
    gpu = _GPU.search(text)
    return OutOfMemory(
        gpu=gpu[1] if gpu else "", tried_mib=_size(_TRIED, text), allocated_mib=allocated,
        reserved_mib=reserved, total_mib=_size(_TOTAL, text),
    )  # fmt: skip


def _size(pattern: re.Pattern[str], text: str) -> float:
    found = pattern.search(text)
    return to_mib(next(group for group in found.groups() if group)) if found else math.nan
