"""This module holds model cards and GPU classes to published numbers, and names to what people mean."""

import math

import pytest

from predictor.contracts.workload import TrainingSpec, TransformerSpec, VisionSpec
from predictor.errors import ArgumentError
from predictor.forecasting.memory.card_registry import ModelCard, find_model, model_cards, require_model
from predictor.forecasting.memory.generic import generic_transformer
from predictor.forecasting.memory.gpus import GpuClass, find_gpu, gpu_classes
from predictor.forecasting.memory.names import plain, stated_size
from predictor.forecasting.memory.parameters import count_parameters, parameter_parts, structural_parts
from predictor.forecasting.memory.validation import faults

TRANSFORMERS = [card for card in model_cards() if isinstance(card.model, TransformerSpec)]
PUBLISHED = {
    "gpt2": 124_439_808, "gpt-neox-20b": 20_554_567_680, "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248, "llama-3-70b": 70_553_706_496, "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096, "mixtral-8x7b": 46_702_792_704, "qwen2.5-7b": 7_615_616_512,
    "gemma-2-9b": 9_241_705_984, "deepseek-v3": 671_026_419_200, "bert-base-uncased": 109_482_240,
    "t5-3b": 2_851_598_336, "falcon-7b": 6_921_720_704, "bloom-176b": 176_247_271_424,
    "powerlm-3b": 3_510_819_072,
}  # fmt: skip


@pytest.mark.parametrize(("name", "want"), PUBLISHED.items())
def test_the_shape_alone_gives_the_published_parameter_count_to_0_1_per_cent(name: str, want: int) -> None:
    model = require_model(name).model
    assert isinstance(model, TransformerSpec)
    assert structural_parts(model).total == pytest.approx(want, rel=0.001)


@pytest.mark.parametrize("card", TRANSFORMERS, ids=lambda card: card.name)
def test_the_stated_count_of_a_card_is_that_of_its_shape(card: ModelCard) -> None:
    assert isinstance(card.model, TransformerSpec)
    assert card.model.parameter_count is not None
    assert structural_parts(card.model).total == pytest.approx(card.model.parameter_count, rel=0.001)
    assert count_parameters(card.model) == pytest.approx(card.model.parameter_count, rel=1e-12)
    assert card.context_length >= 512


def test_there_are_at_least_a_hundred_cards_and_each_can_be() -> None:
    assert len(model_cards()) >= 100
    for card in model_cards():
        assert faults(card.model, TrainingSpec()) == (), card.name


def test_no_two_cards_share_a_name() -> None:
    names = [plain(name) for card in model_cards() for name in (card.name, *card.aliases)]
    assert len(names) == len(set(names))
    gpus = [plain(name) for gpu in gpu_classes() for name in (gpu.name, *gpu.aliases)]
    assert len(gpus) == len(set(gpus))


@pytest.mark.parametrize("card", model_cards(), ids=lambda card: card.name)
def test_a_card_is_found_by_each_of_its_names(card: ModelCard) -> None:
    for name in (card.name, *card.aliases, f"/models/{card.name}/"):
        found = find_model(name)
        assert found is not None
        assert found.card == card.name, name
        assert found.guessed == ()


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3-1-70b"),
        ("TheBloke/Mistral-7B-v0.1-GPTQ", "mistral-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0-3"),
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2-7b"),
        ("EleutherAI/pythia-6.9b", "pythia-6-9b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2-7b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("/scratch/me/Llama-2-7b-hf/snapshots", "llama-2-7b"),
        ("vit_base_patch16_224", "vit-base-patch16"),
        ("wide_resnet50_2", "wide-resnet50-2"),
    ],
)
def test_the_names_of_hubs_and_paths_find_their_card(name: str, want: str) -> None:
    found = find_model(name)
    assert found is not None
    assert (found.card, found.guessed) == (want, ())


def test_a_name_with_only_a_size_gives_the_usual_shape_and_a_wide_range() -> None:
    found = require_model("acme-corp/secret-7b")
    assert found.card == ""
    assert isinstance(found.model, TransformerSpec)
    assert (found.model.layers, found.model.hidden) == (32, 4096)
    assert count_parameters(found.model) == pytest.approx(7e9)
    assert max(part.high_ratio for part in found.guessed) > 1.5


def test_another_size_of_a_known_family_is_not_taken_for_the_card() -> None:
    found = require_model("bloom-999b")
    assert found.card == ""
    assert isinstance(found.model, TransformerSpec)
    assert found.model.parameter_count == 999e9


def test_words_that_are_not_known_make_a_card_uncertain() -> None:
    found = require_model("faster_rcnn_resnet50_fpn")
    assert found.card == "resnet50"
    assert "rcnn" in found.guessed[0].what


def test_a_mixture_named_by_size_shares_attention() -> None:
    model = generic_transformer(7e9, experts=8)
    assert count_parameters(model) == pytest.approx(46.7e9, rel=0.01)  # as Mixtral 8x7B
    assert parameter_parts(model).expert_layers == 32


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("a-1.5b", (1.5e9, 0)),
        ("x-350M", (350e6, 0)),
        ("moe_8x7B", (7e9, 8)),
        ("gpt2", None),
        ("b2b-100", None),
        ("bert-4bit", None),
    ],
)
def test_sizes_are_read_out_of_names(name: str, want: tuple[float, int] | None) -> None:
    assert stated_size(name) == want


def test_an_unknown_model_is_refused_with_similar_names() -> None:
    with pytest.raises(ArgumentError, match=r"'mixtrel' is unknown.*similar: .*mixtral"):
        require_model("mixtrel")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("a100", "a100-40gb"),
        ("A100_80GB", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("Tesla V100-SXM2-16GB", "v100-16gb"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("nvidia_a100_3g.20gb", "a100-40gb-3g-20gb"),
        ("1g.10gb", "a100-80gb-1g-10gb"),
        ("gtx-9", None),
    ],
)
def test_gpus_are_found_as_drivers_and_schedulers_write_them(name: str, want: str | None) -> None:
    found = find_gpu(name)
    assert (found.name if found else None) == want


@pytest.mark.parametrize("gpu", gpu_classes(), ids=lambda gpu: gpu.name)
def test_a_gpu_gives_a_little_less_than_it_is_sold_with(gpu: GpuClass) -> None:
    assert 0.88 * gpu.total_mib <= gpu.usable_mib < gpu.total_mib
    if gpu.slice_of:
        whole = find_gpu(gpu.slice_of)
        assert whole is not None
        assert gpu.usable_mib < whole.usable_mib / 1.5


def test_vision_cards_count_what_makes_sense() -> None:
    for card in model_cards():
        if isinstance(card.model, VisionSpec):
            assert card.model.macs is not None
            assert math.isfinite(card.model.macs)
            assert 1e6 < card.model.parameter_count < 1e9
            assert 1e6 < card.model.activation_count < 1e8
