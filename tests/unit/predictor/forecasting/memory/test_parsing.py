"""This module holds the reading of submissions to what real ones say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.contracts.workload import (
    AttentionKernel,
    CacheFormat,
    Checkpointing,
    InferenceSpec,
    LoraTargets,
    LossKernel,
    Method,
    Optimizer,
    OptimizerKernel,
    Recipe,
    TrainingSpec,
    TransformerSpec,
    WeightFormat,
)
from predictor.forecasting.memory.analytical import estimate
from predictor.forecasting.memory.parsing import ParsedWorkload, parse_command, parse_job, parse_parameters

FSDP = """#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:a100:4
MODEL=meta-llama/Meta-Llama-3-8B   # what we tune
torchrun --nproc_per_node 4 --nnodes 2 finetune.py \\
    --model_name_or_path $MODEL --per_device_train_batch_size 4 --gradient_accumulation_steps 8 \\
    --max_seq_length 4096 --bf16 True --gradient_checkpointing True \\
    --fsdp "full_shard auto_wrap" --optim adamw_torch_fused --use_liger_kernel
"""


def training(parsed: ParsedWorkload) -> TrainingSpec:
    assert isinstance(parsed.run, TrainingSpec)
    return parsed.run


def serving(parsed: ParsedWorkload) -> InferenceSpec:
    assert isinstance(parsed.run, InferenceSpec)
    return parsed.run


def test_a_script_with_torchrun_and_fsdp_is_read_whole() -> None:
    parsed = parse_command(FSDP)
    run = training(parsed)
    assert (parsed.card, parsed.gpu) == ("llama-3-8b", "a100-40gb")
    assert (run.micro_batch, run.micro_batches, run.sequence_length) == (4, 8, 4096)
    assert (run.data, run.zero_stage, run.recipe) == (8, 3, Recipe.AMP)
    assert (run.checkpointing, run.loss) == (Checkpointing.FULL, LossKernel.CHUNKED)
    assert run.optimizer_kernel is OptimizerKernel.FUSED


def test_settings_of_a_deepspeed_file_are_read_and_the_command_wins() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}
        },
        "gradient_accumulation_steps": "auto",
    }  # fmt: skip
    command = "deepspeed --num_gpus 8 t.py --deepspeed conf/ds.json --model_name_or_path llama-2-13b"
    run = training(parse_command(command, files={"ds.json": json.dumps(config)}))
    assert (run.zero_stage, run.micro_batch, run.data) == (3, 2, 8)
    assert run.recipe is Recipe.BF16_MASTER
    assert (run.offload_optimizer, run.offload_parameters) == (True, False)
    own = parse_command(
        command + " --train_micro_batch_size_per_gpu 6", files={"ds.json": json.dumps(config)}
    )
    assert training(own).micro_batch == 6


def test_qlora_flags_are_read() -> None:
    parsed = parse_command(
        "accelerate launch --num_processes 2 sft.py --model mistralai/Mistral-7B-v0.1 --load_in_4bit "
        "--bnb_4bit_use_double_quant true --lora_r 64 --lora_target_modules q_proj v_proj --batch-size=4 "
        "--attn_implementation eager --optim paged_adamw_8bit"
    )  # fmt: skip
    run = training(parsed)
    assert (run.method, run.lora_rank, run.lora_targets) == (Method.QLORA_NF4_DOUBLE, 64, LoraTargets.QV)
    assert (run.attention, run.optimizer) == (AttentionKernel.EAGER, Optimizer.ADAMW_8BIT)
    assert (run.data, run.micro_batch) == (2, 4)
    assert any("batch size" in part.what for part in parsed.guessed)  # per GPU, or over all?


def test_megatron_arguments_are_read() -> None:
    parsed = parse_command(
        "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --tensor-model-parallel-size 4 "
        "--pipeline-model-parallel-size 2 --sequence-parallel --context-parallel-size 2 --micro-batch-size 1 "
        "--seq-length 8192 --recompute-granularity selective --use-distributed-optimizer --bf16 "
        "--load /ckpt/llama-2-70b"
    )  # fmt: skip
    run = training(parsed)
    assert (run.tensor, run.pipeline, run.context, run.data) == (4, 2, 2, 2)
    assert (run.sequence_parallel, run.checkpointing) == (True, Checkpointing.SELECTIVE)
    assert (run.recipe, run.zero_stage) == (Recipe.BF16_MAIN_GRADS, 1)


@pytest.mark.parametrize(
    "start", ["vllm serve meta-llama/Llama-3.1-70B-Instruct",
              "python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-70B-Instruct"]
)  # fmt: skip
def test_arguments_of_vllm_are_read(start: str) -> None:
    parsed = parse_command(
        f"{start} --tensor-parallel-size 4 --max-model-len 16384 --gpu-memory-utilization 0.92 "
        "--kv-cache-dtype fp8 --quantization awq --max-num-batched-tokens 4096 --enforce-eager"
    )
    run = serving(parsed)
    assert parsed.card == "llama-3-1-70b"
    assert (run.tensor, run.context_length, run.utilisation_ratio) == (4, 16384, 0.92)
    assert (run.weights, run.cache) == (WeightFormat.INT4, CacheFormat.FP8)
    assert (run.prefill_tokens, run.graphs) == (4096, False)


def test_vllm_takes_nine_tenths_of_a_card_unless_told() -> None:
    assert serving(parse_command("vllm serve gpt2")).utilisation_ratio == 0.9


def test_a_vision_script_is_read() -> None:
    run = training(parse_command("python train.py --arch resnet50 --batch-size 256 --amp --img-size 288"))
    assert (run.micro_batch, run.image_size, run.recipe) == (256, 288, Recipe.AMP)


def test_parameters_of_a_tracker_are_read_nested_or_flat() -> None:
    flat = parse_parameters({"model_name_or_path": "gpt2-xl", "bf16": True, "per_device_train_batch_size": 16,
                             "max_seq_length": "1k", "gradient_checkpointing": False})  # fmt: skip
    nested = parse_parameters({"model": {"name_or_path": "x", "model_name": "gpt2-xl"},
                               "bf16": {"enabled": True}, "data": {"max_seq_length": 1024},
                               "train": {"micro_batch_size": 16},
                               "gradient_checkpointing": False})  # fmt: skip
    for parsed in (flat, nested):
        run = training(parsed)
        assert parsed.card == "gpt2-xl"
        assert (run.micro_batch, run.sequence_length, run.checkpointing) == (16, 1024, Checkpointing.NONE)


def test_a_row_of_the_job_table_is_read_and_its_batch_is_that_of_all_gpus() -> None:
    row = {
        "model_family": "llama-3-8b", "parameter_count": 8.03e9, "precision": "bf16", "batch_size": 64.0,
        "requested_gpus": 8.0, "sequence_length": 2048.0, "lora_rank": 32.0, "gradient_checkpointing": True,
        "parallelism": "fsdp", "gpu_type": "a100-sxm4-80gb", "optimizer": float("nan"), "image_size": None,
        "submit_line": "sbatch --gres=gpu:8 run.sh --per_device_eval_batch_size 4",
    }  # fmt: skip
    parsed = parse_job(row)
    run = training(parsed)
    assert (parsed.card, parsed.gpu) == ("llama-3-8b", "a100-80gb")
    assert (run.micro_batch, run.data, run.zero_stage) == (8, 8, 3)
    assert (run.method, run.lora_rank) == (Method.LORA, 32)


def test_a_job_name_with_a_size_gives_a_wide_estimate_instead_of_none() -> None:
    parsed = parse_job({"job_name": "train-7b-v2", "requested_gpus": 8.0})
    assert isinstance(parsed.model, TransformerSpec)
    assert parsed.run is not None
    breakdown = estimate(parsed.model, parsed.run, guessed=parsed.guessed)
    assert breakdown.high_bytes > 3 * breakdown.low_bytes


def test_without_a_model_nothing_is_made_up() -> None:
    parsed = parse_command("python main.py --lr 0.1 --epochs 3")
    assert (parsed.model, parsed.run) == (None, None)


def test_values_that_make_no_sense_are_told_and_the_rest_is_used() -> None:
    parsed = parse_command("t.py --model gpt2 --max_seq_length banana --per_device_train_batch_size -4")
    assert parsed.unread == ("micro_batch=-4", "sequence=banana")
    assert training(parsed).micro_batch == 8


def test_a_split_that_the_model_cannot_have_widens_the_range() -> None:
    parsed = parse_command("vllm serve mistral-7b --tensor-parallel-size 7")
    assert serving(parsed).tensor == 1
    assert any("split" in part.what for part in parsed.guessed)


def test_less_said_means_a_wider_range() -> None:
    rich = parse_command(FSDP)
    poor = parse_command("torchrun --nproc_per_node 8 t.py --model_name_or_path meta-llama/Meta-Llama-3-8B")
    spreads = []
    for parsed in (rich, poor):
        assert parsed.model is not None
        assert parsed.run is not None
        breakdown = estimate(parsed.model, parsed.run, guessed=parsed.guessed)
        spreads.append(breakdown.high_bytes / breakdown.low_bytes)
    assert spreads[1] > 2 * spreads[0]


WORDS = st.sampled_from(
    ["--model", "llama-3-8b", "resnet50", "7b", "--tp", "3", "0", "-1", "--zero_stage", "9", "--bf16", "=",
     "vllm", "--lora_r", "1e9", "--fsdp", "--deepspeed", "{", "'", "--max_seq_length=0", "--batch_size",
     "100000000000", "\\\n", "--max-model-len", "--context_parallel_size", "auto", "$X", "X=7",
     "--load_in_4bit", "--num_processes", "mixtral-8x7b"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=20).map(" ".join)))
def test_whatever_a_command_says_it_is_estimated_or_left_alone(text: str) -> None:
    parsed = parse_command(text)
    if parsed.model is not None and parsed.run is not None:
        assert estimate(parsed.model, parsed.run, guessed=parsed.guessed).peak_bytes > 0
