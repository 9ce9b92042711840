"""This module rebuilds generated networks from lists of layers: kind, outputs of a sample, parameters.

The lists name neither what a layer reads nor how layers are joined; both follow from counts of parameters
and from the named shape (residual, dense; all others are plain chains).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from predictor.data.measurements.step_replay import Concatenation, Keeps, Layer, Network, Sum

ListedLayer = tuple[str, float, float]

_KEEP_OUTPUT = ("relu", "tanh", "sigmoid", "softmax")  # their derivative needs what came out
_KERNELS = (1, 3)
_RESIDUAL, _DENSE = "residual", "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Sizes of one convolution: edge of its output in pixels, channels in and out, edge of its kernel."""

    edge: int
    channels_in: int
    channels_out: int
    kernel: int

    @property
    def elements(self) -> float:
        """Elements per sample that go in and out."""
        return float((self.channels_in + self.channels_out) * self.edge**2)

    @property
    def weights(self) -> float:
        """Weights without biases; times pixels it is the work of one sample."""
        return float(self.channels_in * self.channels_out * self.kernel**2)


def network_of(
    listed: Sequence[ListedLayer], *, shape: str, edge: int, channels: int
) -> tuple[Network, tuple[Convolution, ...]]:
    """Return the network and its convolutions.

    Args:
        listed: in the order in which they run.
        shape: as the name of the network states it.
        edge: of the images, pixels; 0 = there are none.
        channels: of the images.
    """
    sizes = _convolutions(listed, shape, edge, channels)
    if shape == _RESIDUAL:
        return _residual(_layers(listed, sizes)), tuple(sizes)
    if shape == _DENSE and sizes:
        return _dense(_layers(listed, sizes), sizes), tuple(sizes)
    return tuple(layer for _, layer in _layers(listed, sizes)), tuple(sizes)


def _convolutions(listed: Sequence[ListedLayer], shape: str, edge: int, channels: int) -> list[Convolution]:
    """Find edges and channels: a convolution has out (k^2 in + 1) parameters; a stride halves the edge."""
    found: list[Convolution] = []
    block_in, block_at = channels, 0  # what a residual block reads; how many of its two it has
    current = channels
    for kind, outputs, parameters in listed:
        if kind.lower() != "conv2d":
            continue
        readable = (current, block_in) if shape == _RESIDUAL else (current,)
        one = _fitting(int(outputs), int(parameters), edge, readable)
        found.append(one)
        edge, current = one.edge, one.channels_out
        if shape == _DENSE and one.kernel > 1:
            current += one.channels_in
        elif shape == _RESIDUAL:
            block_at += one.kernel > 1
            if one.kernel == 1:  # the short path comes first
                current = block_in
            elif block_at == 2:
                block_in, block_at = one.channels_out, 0
    return found


def _fitting(outputs: int, parameters: int, edge: int, readable: Sequence[int]) -> Convolution:
    for size in dict.fromkeys((edge, (edge + 1) // 2, edge // 2)):
        if size < 1 or outputs % size**2:
            continue
        out = outputs // size**2
        for channels in readable:
            for kernel in _KERNELS:
                if parameters == out * (kernel**2 * channels + 1):
                    return Convolution(edge=size, channels_in=channels, channels_out=out, kernel=kernel)
    out = max(outputs // max(edge, 1) ** 2, 1)
    return Convolution(edge=max(edge, 1), channels_in=readable[0], channels_out=out, kernel=_KERNELS[-1])


def _layers(
    listed: Sequence[ListedLayer], sizes: Sequence[Convolution]
) -> list[tuple[Convolution | None, Layer]]:
    """Return the layers, convolutions with their sizes."""
    waiting = iter(sizes)
    out: list[tuple[Convolution | None, Layer]] = []
    for kind, outputs, parameters in listed:
        name = kind.lower()
        size = next(waiting) if name == "conv2d" else None
        if size is not None:
            layer = Layer(inputs=float(size.channels_in * size.edge**2), outputs=outputs, keeps=Keeps.INPUT,
                          parameters=parameters, is_convolution=True)  # fmt: skip
        elif name == "linear":
            layer = Layer(inputs=max(parameters / max(outputs, 1.0) - 1.0, 0.0), outputs=outputs,
                          parameters=parameters, keeps=Keeps.INPUT)  # fmt: skip
        elif name == "dropout":
            layer = Layer(inputs=outputs, outputs=outputs, keeps=Keeps.MASK)
        elif "pool" in name:  # down to one pixel: a mean, which keeps nothing
            layer = Layer(inputs=out[-1][1].outputs if out else outputs, outputs=outputs)
        elif name in _KEEP_OUTPUT:
            layer = Layer(inputs=outputs, outputs=outputs, keeps=Keeps.OUTPUT)
        elif name == "prelu":  # makes a gradient of its slope for each element before it adds them up
            layer = Layer(inputs=outputs, outputs=outputs, parameters=parameters, keeps=Keeps.INPUT,
                          beyond=outputs)  # fmt: skip
        else:
            layer = Layer(inputs=outputs, outputs=outputs, parameters=parameters, keeps=Keeps.INPUT)
        out.append((size, layer))
    return out


def _residual(layers: Sequence[tuple[Convolution | None, Layer]]) -> Network:
    """Group into blocks: a short path of one narrow convolution (or none), and two wide ones."""
    network: list[Layer | Sum | Concatenation] = []
    at = 0
    while at < len(layers):
        size, layer = layers[at]
        if size is None:
            network.append(layer)
            at += 1
            continue
        short: list[Layer] = []
        if size.kernel == 1:
            short, at = _stretch(layers, at)
        long: list[Layer] = []
        for part in range(2):
            if at < len(layers) and layers[at][0] is not None:
                found, after = _stretch(layers, at)
                if part == 1:  # the function comes after the sum
                    has_norm = len(found) > 1 and found[1].parameters > 0 and found[1].beyond == 0.0
                    found, after = found[: 1 + has_norm], at + 1 + has_norm
                long += found
                at = after
        network.append(Sum(long=tuple(long), short=tuple(short)))
    return tuple(network)


def _dense(layers: Sequence[tuple[Convolution | None, Layer]], sizes: Sequence[Convolution]) -> Network:
    """Group into stretches whose output is put beside what they read, and narrow ones between stages."""
    network: list[Layer | Sum | Concatenation] = []
    at, number = 0, 0
    while at < len(layers):
        size, layer = layers[at]
        if size is None:
            network.append(layer)
            at += 1
            continue
        found, at = _stretch(layers, at)
        number += 1
        if size.kernel > 1:
            network.append(Concatenation(layers=tuple(found)))
            continue
        network += found
        following = sizes[number].edge if number < len(sizes) else size.edge
        if following < size.edge:  # an average over squares, which is not listed
            network.append(Layer(inputs=found[-1].outputs, keeps=Keeps.INPUT,
                                 outputs=float(size.channels_out * following**2)))  # fmt: skip
    return tuple(network)


def _stretch(layers: Sequence[tuple[Convolution | None, Layer]], at: int) -> tuple[list[Layer], int]:
    """Return a convolution with the layers up to the next, or to the head, and where that is."""
    found, outputs = [layers[at][1]], layers[at][1].outputs
    at += 1
    while at < len(layers) and layers[at][0] is None and layers[at][1].inputs == outputs \
            and layers[at][1].outputs == outputs:  # fmt: skip
        found.append(layers[at][1])
        at += 1
    return found, at
