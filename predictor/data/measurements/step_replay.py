"""This module replays training steps of a network whose layers are listed, on an emulated allocator.

Which tensors a layer keeps for the backward pass decides its memory: a normalisation and most functions keep
what comes in, a few functions what goes out, a dropout a mask of bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from predictor.data.measurements.caching_allocator import CachingAllocator

_ELEMENT = 4.0  # bytes, single precision
_STEPS = 2  # states of the optimizer appear after the first one
_LOSS_ELEMENTS = 512


class Keeps(StrEnum):
    """What a layer keeps until its backward pass."""

    INPUT = "input"
    OUTPUT = "output"
    MASK = "mask"  # one byte for each element
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer.

    Attributes:
        inputs, outputs: elements per sample.
        beyond: elements per sample that its backward pass holds for a moment.
        is_convolution: its kernels may ask for workspace.
    """

    inputs: float
    outputs: float
    parameters: float = 0.0
    keeps: Keeps = Keeps.NOTHING
    beyond: float = 0.0
    is_convolution: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Two paths from one tensor, added up; an empty ``short`` path hands the tensor on."""

    long: tuple[Layer, ...]
    short: tuple[Layer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenation:
    """A tensor beside what the layers made of it, copied into one."""

    layers: tuple[Layer, ...]


Network = Sequence[Layer | Sum | Concatenation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What kernels of convolutions ask for, as a share of what goes in and out of the layer."""

    forward_share: float = 0.0
    backward_share: float = 0.0


@dataclass(slots=True)
class _Tensor:
    block: int
    elements: float
    references: int
    is_learned: bool = True  # whether a gradient flows into it


_Backward = Callable[[_Tensor], "_Tensor | None"]


def replay(
    network: Network, batch: int, input_elements: float, workspace: Workspace | None = None
) -> CachingAllocator:
    """Return the allocator after two steps of training with Adam, all tensors in single precision.

    Args:
        batch: samples per step.
        input_elements: of one sample.
        workspace: of convolutions; None = none.
    """
    run = _Run(batch, workspace or Workspace())
    layers = [layer for node in network for layer in _layers(node)]
    counts = [layer.parameters for layer in layers if layer.parameters]
    for count in counts:
        run.allocator.take(count * _ELEMENT)
    for at in range(_STEPS):
        run.step(network, input_elements)
        if at == 0:
            for count in counts + counts:
                run.allocator.take(count * _ELEMENT)
        # one more copy of all parameters, as the optimizer treats them together
        temporary = [run.allocator.take(count * _ELEMENT) for count in counts]
        for block in temporary + run.gradients:
            run.allocator.give_back(block)
        run.gradients.clear()
    return run.allocator


def _layers(node: Layer | Sum | Concatenation) -> tuple[Layer, ...]:
    if isinstance(node, Layer):
        return (node,)
    return node.layers if isinstance(node, Concatenation) else (*node.short, *node.long)


class _Run:
    """Steps on one allocator."""

    def __init__(self, batch: int, workspace: Workspace) -> None:
        self.allocator = CachingAllocator()
        self.gradients: list[int] = []
        self._batch = batch
        self._workspace = workspace
        self._held: list[_Tensor] = []  # of the step before: what the loop's variables still name

    def step(self, network: Network, input_elements: float) -> None:
        for tensor in self._held:
            self._drop(tensor)
        given = self._new(self._batch * input_elements, is_learned=False)
        given.references += 1
        flowing, backwards = self._forward(network, given)
        loss = self._new(_LOSS_ELEMENTS)
        gradient: _Tensor | None = self._new(flowing.elements)
        for backward in reversed(backwards):
            assert gradient is not None  # noqa: S101  (only the first layer passes none on)
            gradient = backward(gradient)
        if gradient is not None:
            self._drop(gradient)
        self._held = [given, flowing, loss]

    def _forward(self, nodes: Network, flowing: _Tensor) -> tuple[_Tensor, list[_Backward]]:
        backwards = []
        for node in nodes:
            if isinstance(node, Layer):
                flowing, backward = self._layer(node, flowing)
            elif isinstance(node, Sum):
                flowing, backward = self._sum(node, flowing)
            else:
                flowing, backward = self._concatenation(node, flowing)
            backwards.append(backward)
        return flowing, backwards

    def _layer(self, layer: Layer, given: _Tensor) -> tuple[_Tensor, _Backward]:
        out = self._new(self._batch * layer.outputs)
        around = self._batch * (layer.inputs + layer.outputs) if layer.is_convolution else 0.0
        self._pass(around * self._workspace.forward_share)
        kept: _Tensor | None = None
        if layer.keeps is Keeps.MASK:
            kept = self._new(self._batch * layer.outputs, size=1.0)
        elif layer.keeps is not Keeps.NOTHING:
            kept = given if layer.keeps is Keeps.INPUT else out
            kept.references += 1
        is_learned, elements = given.is_learned, given.elements
        self._drop(given)

        def backward(gradient: _Tensor) -> _Tensor | None:
            passed = self._new(elements) if is_learned else None
            if layer.parameters:
                self.gradients.append(self.allocator.take(layer.parameters * _ELEMENT))
            self._pass(around * self._workspace.backward_share)
            self._pass(self._batch * layer.beyond)
            if kept is not None:
                self._drop(kept)
            self._drop(gradient)
            return passed

        return out, backward

    def _sum(self, node: Sum, given: _Tensor) -> tuple[_Tensor, _Backward]:
        given.references += 1
        is_learned, elements = given.is_learned, given.elements
        short, short_back = self._forward(node.short, given)
        long, long_back = self._forward(node.long, given)
        out = self._new(long.elements)
        self._drop(short)
        self._drop(long)

        def backward(gradient: _Tensor) -> _Tensor | None:
            gradient.references += 1
            passed = [self._back(path, gradient) for path in (long_back, short_back)]
            return self._add_up(passed, elements if is_learned else None)

        return out, backward

    def _concatenation(self, node: Concatenation, given: _Tensor) -> tuple[_Tensor, _Backward]:
        given.references += 1
        is_learned, elements = given.is_learned, given.elements
        made, backwards = self._forward(node.layers, given)
        out = self._new(elements + made.elements)
        self._drop(given)
        self._drop(made)

        def backward(gradient: _Tensor) -> _Tensor | None:
            gradient.references += 1  # its parts are views
            passed = self._back(backwards, gradient)
            total = self._add_up([passed], elements if is_learned else None)
            self._drop(gradient)
            return total

        return out, backward

    def _back(self, backwards: Sequence[_Backward], gradient: _Tensor) -> _Tensor | None:
        flowing: _Tensor | None = gradient
        for backward in reversed(backwards):
            assert flowing is not None  # noqa: S101  (only the first layer passes none on)
            flowing = backward(flowing)
        return flowing

    def _add_up(self, passed: Sequence[_Tensor | None], elements: float | None) -> _Tensor | None:
        """Return the gradient of a tensor that several have read; ``elements`` is None where it has none."""
        total = None if elements is None else self._new(elements)
        for one in passed:
            if one is not None:
                self._drop(one)
        return total

    def _new(self, elements: float, *, size: float = _ELEMENT, is_learned: bool = True) -> _Tensor:
        return _Tensor(self.allocator.take(elements * size), elements, 1, is_learned)

    def _drop(self, tensor: _Tensor) -> None:
        tensor.references -= 1
        if not tensor.references:
            self.allocator.give_back(tensor.block)

    def _pass(self, elements: float) -> None:
        """Take and give back what is needed for a moment."""
        if elements > 0.0:
            self.allocator.give_back(self.allocator.take(elements * _ELEMENT))
