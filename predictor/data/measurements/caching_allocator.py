"""This module emulates a caching allocator of GPU memory: what it takes from the device for what tensors ask.

What nvidia-smi shows are segments that the allocator has taken and keeps, not the tensors in them.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

_MIB = 1 << 20
_UNIT = 512  # every block is a multiple of it
_SMALL = _MIB  # the largest request that is served from small segments
_SMALL_SEGMENT, _MIDDLE_SEGMENT, _LARGE_STEP = 2 * _MIB, 20 * _MIB, 2 * _MIB
_MIDDLE = 10 * _MIB  # requests below it share middle segments


@dataclass(slots=True)
class _Block:
    """A part of a segment; ``before`` and ``after`` are its neighbours, -1 at the ends."""

    size: int
    is_small: bool
    before: int
    after: int
    is_free: bool


class CachingAllocator:
    """Segments and blocks as PyTorch's allocator for CUDA keeps them; nothing goes back to the device.

    Attributes:
        reserved_bytes: taken from the device; it never falls, so it is its own peak.
        peak_bytes: most that was in use at once.

    Notes:
        Requests are rounded up to 512 bytes. The smallest free block that holds one serves it, and what is
        left over is split off if it is worth keeping (512 bytes in small segments, more than 1 MiB in
        others). Otherwise a new segment is taken: 2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB, else
        the request rounded up to 2 MiB. Freed neighbours are joined.

    References:
        DeVito, "A guide to PyTorch's CUDA Caching Allocator", 2022.
    """

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self.peak_bytes = 0
        self._used = 0
        self._blocks: dict[int, _Block] = {}
        self._free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        self._next = 0

    def take(self, size: float) -> int:
        """Return the number of a block of at least ``size`` bytes."""
        wanted = max(_UNIT, -(-int(size) // _UNIT) * _UNIT)
        is_small = wanted <= _SMALL
        free = self._free[is_small]
        at = bisect_left(free, (wanted, -1))
        number = free.pop(at)[1] if at < len(free) else self._segment(wanted, is_small)
        block = self._blocks[number]
        left = block.size - wanted
        if left >= _UNIT if is_small else left > _SMALL:
            rest = self._add(_Block(left, is_small, number, block.after, True))
            if block.after >= 0:
                self._blocks[block.after].before = rest
            block.after, block.size = rest, wanted
            insort(free, (left, rest))
        block.is_free = False
        self._used += block.size
        self.peak_bytes = max(self.peak_bytes, self._used)
        return number

    def give_back(self, number: int) -> None:
        """Free a block, and join it with free neighbours."""
        block = self._blocks[number]
        self._used -= block.size
        free = self._free[block.is_small]
        block.is_free = True
        if block.after >= 0 and self._blocks[block.after].is_free:
            self._join(number, block.after, free)
        if block.before >= 0 and self._blocks[block.before].is_free:
            before = block.before
            free.pop(bisect_left(free, (self._blocks[before].size, before)))
            insort(free, (block.size, number))
            self._join(before, number, free)
            number = before
        insort(free, (self._blocks[number].size, number))

    def _join(self, number: int, after: int, free: list[tuple[int, int]]) -> None:
        """Join a block that is in no list with the free one behind it."""
        block, gone = self._blocks[number], self._blocks.pop(after)
        free.pop(bisect_left(free, (gone.size, after)))
        block.size += gone.size
        block.after = gone.after
        if gone.after >= 0:
            self._blocks[gone.after].before = number

    def _segment(self, wanted: int, is_small: bool) -> int:
        size = _SMALL_SEGMENT
        if not is_small:
            size = _MIDDLE_SEGMENT if wanted < _MIDDLE else -(-wanted // _LARGE_STEP) * _LARGE_STEP
        self.reserved_bytes += size
        return self._add(_Block(size, is_small, -1, -1, True))

    def _add(self, block: _Block) -> int:
        self._next += 1
        self._blocks[self._next] = block
        return self._next
