"""This module holds the command ``predictor estimate-vram`` to its answers and exit codes."""

import json
from pathlib import Path

import pytest

from predictor.cli import main

LORA = ["estimate-vram", "--model", "llama-3-8b", "--method", "lora", "--batch", "4", "--seq", "4096"]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    main(["estimate-vram", *words, "--json"])
    parsed = json.loads(capsys.readouterr().out)
    assert isinstance(parsed, dict)
    return parsed


def test_a_run_that_fits_exits_0_and_shows_components_phases_and_gpus(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*LORA, "--gpu", "a100-80gb"]) == 0
    shown = capsys.readouterr().out
    for word in ("weights", "optimizer step", "peak", "fits on", "a100-80gb", "assumed: --loss plain"):
        assert word in shown


def test_a_run_that_does_not_fit_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LORA, "--gpu", "t4"]) == 1
    assert "no" in capsys.readouterr().out


def test_without_a_gpu_the_answer_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(LORA) == 0
    assert "fits on" in capsys.readouterr().out


def test_every_fault_is_told_at_once_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    call = [
        "--layers",
        "-3",
        "--hidden",
        "4096",
        "--heads",
        "32",
        "--tp",
        "7",
        "--gpu",
        "gtx-9",
        "--batch",
        "0",
    ]
    assert main(["estimate-vram", *call]) == 2
    told = capsys.readouterr().err
    for fault in ("layers=-3", "tensor=7 must divide heads=32", "micro_batch=0", "gpu 'gtx-9' is unknown"):
        assert fault in told
    assert main(["estimate-vram", "--model", "nonsense", "--gpu", "gtx-9", "--tp", "0"]) == 2
    told = capsys.readouterr().err
    for fault in ("model 'nonsense' is unknown", "tensor=0", "gpu 'gtx-9' is unknown"):
        assert fault in told


def test_a_call_without_a_model_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate-vram"]) == 2
    assert "--model" in capsys.readouterr().err


def test_json_holds_what_the_tables_hold(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *LORA[1:], "--loss", "chunked", "--recipe", "pure-bf16", "--gpu", "a100-40gb")
    assert found["card"] == "llama-3-8b"
    assert isinstance(found["tensor_peak_bytes"], int)
    assert found["tensor_peak_bytes"] / 1e9 == pytest.approx(24.9, abs=0.05)
    assert isinstance(found["phases"], dict)
    assert isinstance(found["range_bytes"], list)
    totals = [sum(phase.values()) for phase in found["phases"].values()]
    assert found["peak_bytes"] == pytest.approx(max(totals), abs=9)
    assert found["range_bytes"][0] <= found["peak_bytes"] <= found["range_bytes"][1]
    assert isinstance(found["gpu"], dict)
    assert found["gpu"]["verdict"] == "fits"
    assert isinstance(found["fits_on"], list)
    assert {"a100-80gb", "h100-80gb"} <= {one["gpu"] for one in found["fits_on"]}


def test_a_server_that_reserves_its_share_says_how_much_cache_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = ["--model", "llama-3.1-405b", "--tp", "8", "--gpu", "h100"]
    server = ["--serve", "--weights", "fp8", "--utilisation", "0.9"]
    assert main(["estimate-vram", *model, *server]) == 0
    assert "tokens of cache" in capsys.readouterr().out


def test_a_model_without_shape_is_estimated_from_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    counts = ["--parameters", "25.6e6", "--activations", "11.1e6", "--architecture", "convolution"]
    by_counts = answer(capsys, *counts, "--recipe", "fp32", "--batch", "64")
    by_card = answer(capsys, "--model", "resnet50", "--recipe", "fp32", "--batch", "64")
    assert by_counts["peak_bytes"] == pytest.approx(by_card["peak_bytes"], rel=0.01)


def test_a_submission_is_read_from_a_line_and_from_a_script_with_its_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "zero.json"
    config.write_text(json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    line = (
        f"deepspeed --num_gpus 8 t.py --deepspeed {config} --model_name_or_path meta-llama/Llama-2-7b-hf "
        "--per_device_train_batch_size 2 --max_seq_length 2048 --gradient_checkpointing"
    )
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --gres=gpu:a100-80gb:8\n{line}\n")
    by_line, by_script = (answer(capsys, "--from-command", text) for text in (line, str(script)))
    assert by_line["peak_bytes"] == by_script["peak_bytes"]
    assert isinstance(by_script["run"], dict)
    assert by_script["run"]["zero_stage"] == 3
    assert isinstance(by_script["gpu"], dict)
    assert by_script["gpu"]["gpu"] == "a100-80gb"


def test_a_command_without_a_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate-vram", "--from-command", "python main.py --lr 1"]) == 2
    assert "no model was found" in capsys.readouterr().err


_COMMAND = ["--from-command", "python t.py --model_name_or_path llama-7b --bf16"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            [*_COMMAND, "--batch", "9", "--serve", "--zero", "3"],
            "--batch, --zero, --serve: model and run are",
        ),
        (["--model", "7b", "--parameters", "nan"], "--parameters: the model is the card or size of --model"),
        (["--model", "7b", "--layers", "3"], "--model: the model is the shape given"),
        (["--model", "7b", "--activations", "1e6"], "--model: the model is the counts given"),
        (["--model", "7b", "--serve", "--zero", "3", "--method", "lora"], "--method, --zero: a model with"),
        (["--model", "7b", "--weights", "fp8", "--graphs"], "--weights, --graphs: without --serve"),
        (["--model", "7b", "--lora-rank", "8"], "--lora-rank: --method full has no adapters"),
        (["--model", "7b", "--image-size", "64"], "--image-size: a transformer takes tokens"),
        (["--model", "resnet50", "--seq", "64", "--loss", "fused"], "--loss, --seq: a model known by its"),
        (["--heads", "8", "--gpu", "t4"], "--heads: a shape needs --layers and --hidden"),
        (["--list", "gpus", "--seq", "8"], "--seq: a list is printed"),
    ],
)
def test_options_that_would_change_nothing_are_refused_all_at_once(
    call: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate-vram", *call]) == 2
    assert told in capsys.readouterr().err


def test_a_gpu_beside_a_command_wins_over_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *_COMMAND, "--gpu", "h100")
    assert isinstance(found["gpu"], dict)
    assert found["gpu"]["gpu"] == "h100-80gb"


@pytest.mark.parametrize("path", ["nosuch.sh", "jobs/run-7b.sh", "nosuch"])
def test_a_script_that_does_not_exist_is_told_as_such(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate-vram", "--from-command", path]) == 2
    assert f"--from-command {path}: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("what", "want"), [("models", "mixtral-8x7b"), ("gpus", "a100-80gb")])
def test_known_names_are_listed(what: str, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate-vram", "--list", what]) == 0
    assert want in capsys.readouterr().out
    assert main(["estimate-vram", "--list", what, "--json"]) == 0
    assert want in json.loads(capsys.readouterr().out)


def test_an_unknown_list_is_refused() -> None:
    assert main(["estimate-vram", "--list", "planets"]) == 2
