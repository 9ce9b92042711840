"""This module holds the replay of training steps to sizes that can be counted by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.data.measurements.caching_allocator import CachingAllocator
from predictor.data.measurements.layer_lists import ListedLayer, network_of
from predictor.data.measurements.step_replay import (
    Concatenation,
    Keeps,
    Layer,
    Network,
    Sum,
    Workspace,
    replay,
)

MIB = 2**20
PIXELS = 64 * 64


@pytest.mark.parametrize(
    ("asked", "taken_mib"), [(1, 2), (MIB, 2), (MIB + 1, 20), (10 * MIB - 512, 20), (51 * MIB, 52)]
)
def test_segments_are_taken_in_the_sizes_that_the_allocator_documents(asked: int, taken_mib: int) -> None:
    allocator = CachingAllocator()
    allocator.take(asked)
    assert allocator.reserved_bytes == taken_mib * MIB


def test_freed_neighbours_serve_a_larger_request_and_separate_segments_do_not() -> None:
    allocator = CachingAllocator()
    parts = [allocator.take(4 * MIB) for _ in range(5)]  # one segment of 20 MiB
    for part in parts:
        allocator.give_back(part)
    allocator.take(20 * MIB)
    assert allocator.reserved_bytes == 20 * MIB
    whole = [allocator.take(30 * MIB) for _ in range(2)]
    for part in whole:
        allocator.give_back(part)
    allocator.take(60 * MIB)
    assert allocator.reserved_bytes == (20 + 30 + 30 + 60) * MIB


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60 * MIB)), max_size=80))
@settings(max_examples=60, deadline=None)
def test_what_is_in_use_never_exceeds_what_is_reserved(moves: list[tuple[bool, int]]) -> None:
    allocator, used = CachingAllocator(), 0
    held: list[tuple[int, int]] = []
    for gives, size in moves:
        if gives and held:
            number, was = held.pop(size % len(held))
            allocator.give_back(number)
            used -= was
        else:
            held.append((allocator.take(size), size))
            used += size
        assert used <= allocator.peak_bytes or used == 0
        assert allocator.peak_bytes <= allocator.reserved_bytes


def chain(depth: int, function: str, *, norm: bool, dropout: bool) -> Network:
    channels = 32
    outputs = float(channels * PIXELS)
    listed: list[ListedLayer] = []
    for _ in range(depth):
        listed.append(("conv2d", outputs, float(channels * (9 * channels + 1))))
        listed += [("batchnorm2d", outputs, 2.0 * channels)] if norm else []
        listed.append((function, outputs, 0.0))
        listed += [("dropout", outputs, 0.0)] if dropout else []
    listed += [("adaptive_avg_pool2d", channels, 0.0), ("linear", 10.0, 330.0)]
    network, sizes = network_of(listed, shape="uniform", edge=64, channels=channels)
    assert {(size.channels_in, size.kernel, size.edge) for size in sizes} == {(channels, 3, 64)}
    return network


@pytest.mark.parametrize(
    ("function", "norm", "dropout", "tensors"),
    [
        ("ReLU", False, False, 1.0),  # its output is also what the next layer reads
        ("GELU", False, False, 2.0),
        ("ReLU", True, False, 2.0),  # the output of the normalisation is not kept
        ("GELU", True, False, 3.0),
        ("GELU", False, True, 2.25),  # the dropout keeps a byte per element, not what it reads
        ("ReLU", True, True, 3.25),
    ],
)
def test_each_layer_adds_the_tensors_that_its_backward_pass_needs(
    function: str, norm: bool, dropout: bool, tensors: float
) -> None:
    batch = 16
    one = batch * 32 * PIXELS * 4.0
    peaks = [
        replay(chain(depth, function, norm=norm, dropout=dropout), batch, 32 * PIXELS).peak_bytes
        for depth in (5, 8)
    ]
    assert (peaks[1] - peaks[0]) / 3 / one == pytest.approx(tensors, abs=0.02)


def test_linear_layers_with_many_parameters_peak_at_the_step_with_twenty_bytes_each() -> None:
    layers = tuple(
        Layer(inputs=2000.0, outputs=2000.0, parameters=4_002_000.0, keeps=Keeps.INPUT) for _ in range(6)
    )
    allocator = replay(layers, 4, 2000.0)
    assert allocator.peak_bytes == pytest.approx(20 * 6 * 4_002_000, rel=0.06)  # rests too small to split


def test_sums_and_concatenations_hold_what_both_paths_read_and_make() -> None:
    same, batch = Layer(inputs=1e5, outputs=1e5, keeps=Keeps.INPUT), 64
    one = batch * 1e5 * 4.0

    def tensors(node: Layer | Sum | Concatenation) -> float:
        return replay((node,), batch, 1e5).peak_bytes / one

    assert tensors(same) == pytest.approx(3.0, abs=0.1)  # read, made, and the gradient of that
    # read, made by both paths, and their sum
    assert tensors(Sum(long=(same,), short=(same,))) == pytest.approx(4.0, abs=0.1)
    # read, put together (twice as large), and the gradient of that
    assert tensors(Concatenation(layers=(same,))) == pytest.approx(5.0, abs=0.1)


def test_workspace_is_asked_for_by_convolutions_only() -> None:
    asked = Workspace(forward_share=0.5, backward_share=3.0)
    network = chain(3, "ReLU", norm=False, dropout=False)
    assert (
        replay(network, 8, 32 * PIXELS, asked).reserved_bytes > replay(network, 8, 32 * PIXELS).reserved_bytes
    )
    line = (Layer(inputs=500.0, outputs=500.0, parameters=250_500.0, keeps=Keeps.INPUT),) * 3
    assert replay(line, 8, 500.0, asked).reserved_bytes == replay(line, 8, 500.0).reserved_bytes


def test_edges_and_channels_follow_from_counts_of_parameters_in_residual_and_dense_networks() -> None:
    residual: list[ListedLayer] = [
        ("conv2d", 8 * 32.0**2, 8 * 4.0), ("conv2d", 8 * 32.0**2, 8 * 28.0), ("ReLU", 8 * 32.0**2, 0.0),
        ("conv2d", 8 * 32.0**2, 8 * 73.0), ("ReLU", 8 * 32.0**2, 0.0),
        ("conv2d", 12 * 16.0**2, 12 * 9.0), ("conv2d", 12 * 16.0**2, 12 * 73.0), ("ReLU", 12 * 16.0**2, 0.0),
        ("conv2d", 12 * 16.0**2, 12 * 109.0), ("ReLU", 12 * 16.0**2, 0.0), ("linear", 5.0, 65.0),
    ]  # fmt: skip
    network, sizes = network_of(residual, shape="residual", edge=32, channels=3)
    assert [(one.edge, one.channels_in, one.kernel) for one in sizes] == [
        (32, 3, 1), (32, 3, 3), (32, 8, 3), (16, 8, 1), (16, 8, 3), (16, 12, 3),
    ]  # fmt: skip
    assert [type(node) for node in network] == [Sum, Layer, Sum, Layer, Layer]
    dense: list[ListedLayer] = [
        ("conv2d", 8 * 32.0**2, 8 * 28.0), ("ReLU", 8 * 32.0**2, 0.0),
        ("conv2d", 8 * 32.0**2, 8 * 100.0), ("ReLU", 8 * 32.0**2, 0.0),
        ("conv2d", 9 * 32.0**2, 9 * 20.0), ("ReLU", 9 * 32.0**2, 0.0),
        ("conv2d", 8 * 16.0**2, 8 * 82.0), ("ReLU", 8 * 16.0**2, 0.0), ("linear", 5.0, 90.0),
    ]  # fmt: skip
    network, sizes = network_of(dense, shape="dense", edge=32, channels=3)
    assert [(one.edge, one.channels_in, one.kernel) for one in sizes] == [
        (32, 3, 3), (32, 11, 3), (32, 19, 1), (16, 9, 3),
    ]  # fmt: skip
    assert [type(node) for node in network] == [
        Concatenation, Concatenation, Layer, Layer, Layer, Concatenation, Layer,
    ]  # fmt: skip
