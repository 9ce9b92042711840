"""This module is the command ``predictor estimate-vram``: GPU memory of a run, and what it fits on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipelines.given_options import given_options
from pipelines.memory_report import plain_estimate, show_estimate
from pipelines.vram_options import ignored_by_model, ignored_options
from predictor.contracts.workload import (
    AttentionKernel,
    CacheFormat,
    Checkpointing,
    InferenceSpec,
    LoraTargets,
    LossKernel,
    Method,
    ModelSpec,
    Optimizer,
    OptimizerKernel,
    Recipe,
    RunSpec,
    TrainingSpec,
    TransformerSpec,
    VisionArchitecture,
    VisionSpec,
    WeightFormat,
)
from predictor.errors import ArgumentError
from predictor.forecasting.memory.analytical import estimate
from predictor.forecasting.memory.breakdown import Uncertainty
from predictor.forecasting.memory.card_registry import find_model, model_cards, unknown_model
from predictor.forecasting.memory.fit import Verdict, fit_on
from predictor.forecasting.memory.gpus import find_gpu, gpu_classes, unknown_gpu
from predictor.forecasting.memory.parsing import parse_command
from predictor.forecasting.memory.validation import faults, run_faults

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".py")
_HELP = """Estimate the peak GPU memory of a run before it starts, and say which GPUs it fits on.

The model is a card (--list models), a size such as 7b, or a shape (--layers, --hidden, ...). Sizes are per
GPU; the peak is the largest of the phases of a step. What is not said is assumed, and printed as assumed.

Exit code 0: it fits, or no --gpu was given; 1: it does not fit; 2: the call was wrong, all faults are told.

Examples:

\b
  predictor estimate-vram --model llama-3-8b --method lora --batch 4 --seq 4096 --gpu a100-80gb
  predictor estimate-vram --model llama-2-70b --recipe bf16-master --zero 3 --dp 64 --seq 4096 --gpu h100
  predictor estimate-vram --model llama-3.1-405b --serve --weights fp8 --tp 8 --seq 32768 --gpu h100
  predictor estimate-vram --model resnet50 --recipe amp --batch 256 --gpu v100-16gb --json
  predictor estimate-vram --from-command "torchrun --nproc_per_node 8 sft.py --model_name_or_path
      mistralai/Mistral-7B-v0.1 --per_device_train_batch_size 4 --bf16 --fsdp full_shard"
  predictor estimate-vram --list gpus
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Model and run as far as they could be understood, and every fault met on the way."""

    model: ModelSpec | None
    run: RunSpec
    card: str
    gpu: str
    guessed: tuple[Uncertainty, ...]
    assumed: tuple[str, ...]
    unread: tuple[str, ...]
    faults: tuple[str, ...]


@app.command(help=_HELP)
def main(
    context: typer.Context,
    *,
    model: Annotated[
        str, typer.Option(help="Model card, name or path of a model, or a size such as 7b.")
    ] = "",
    gpu: Annotated[str, typer.Option(help="GPU class to fit on; --list gpus shows them.")] = "",
    from_command: Annotated[
        str, typer.Option(help="Read model and run from a command line, or from a script if it is a file.")
    ] = "",
    listing: Annotated[str, typer.Option("--list", help="List known 'models' or 'gpus'.")] = "",
    parameters: Annotated[
        float | None, typer.Option(help="Parameters; wins over those of the shape.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Shape: layers.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Shape: width.")] = None,
    heads: Annotated[int | None, typer.Option(help="Shape: attention heads.")] = None,
    kv_heads: Annotated[int | None, typer.Option(help="Shape: KV heads [heads].")] = None,
    head_dim: Annotated[int | None, typer.Option(help="Shape: width of a head [hidden / heads].")] = None,
    ffn: Annotated[int | None, typer.Option(help="Shape: feed-forward width [4 x hidden].")] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Shape: vocabulary [32000].")] = None,
    experts: Annotated[int, typer.Option(help="Shape: experts, 0 = dense.")] = 0,
    experts_per_token: Annotated[int, typer.Option(help="Shape: experts that a token passes.")] = 0,
    plain_ffn: Annotated[bool, typer.Option(help="Shape: feed-forward block without gate.")] = False,
    tied: Annotated[bool, typer.Option(help="Shape: embedding and head share weights.")] = False,
    activations: Annotated[
        float | None, typer.Option(help="Counts: activations per sample, for models without shape.")
    ] = None,
    architecture: Annotated[
        VisionArchitecture, typer.Option(help="Counts: what the activations belong to.")
    ] = VisionArchitecture.UNKNOWN,
    method: Annotated[Method, typer.Option(help="What is trained.")] = Method.FULL,
    recipe: Annotated[Recipe | None, typer.Option(help="Precision of the states [bf16-master].")] = None,
    optimizer: Annotated[Optimizer, typer.Option(help="Optimizer.")] = Optimizer.ADAMW,
    optimizer_kernel: Annotated[
        OptimizerKernel | None, typer.Option(help="How it steps [what the recipe comes with].")
    ] = None,
    lora_rank: Annotated[int, typer.Option(help="Rank of adapters.")] = 16,
    lora_targets: Annotated[LoraTargets, typer.Option(help="Layers with adapters.")] = LoraTargets.ATTENTION,
    checkpointing: Annotated[
        Checkpointing | None, typer.Option(help="Recomputation of activations [full].")
    ] = None,
    attention: Annotated[AttentionKernel, typer.Option(help="Attention kernel.")] = AttentionKernel.FLASH,
    loss: Annotated[LossKernel, typer.Option(help="Loss kernel.")] = LossKernel.PLAIN,
    batch: Annotated[int, typer.Option(help="Sequences or images per GPU; served at a time.")] = 1,
    seq: Annotated[
        int | None, typer.Option(help="Tokens of the longest sequence [2048, served 4096].")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Edge of images [that of the card].")] = None,
    micro_batches: Annotated[int, typer.Option(help="Forward passes per step.")] = 1,
    tp: Annotated[int, typer.Option(help="Tensor parallel GPUs.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    dp: Annotated[int, typer.Option(help="Replicas.")] = 1,
    cp: Annotated[int, typer.Option(help="Context parallel GPUs.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert parallel GPUs, part of dp x cp.")] = 1,
    zero: Annotated[int, typer.Option(help="ZeRO stage; 3 = FSDP full shard.")] = 0,
    shard_group: Annotated[int | None, typer.Option(help="GPUs that ZeRO shards over [dp x cp].")] = None,
    sequence_parallel: Annotated[bool, typer.Option(help="Split norms and inputs over tp too.")] = False,
    virtual_stages: Annotated[int, typer.Option(help="Model chunks per pipeline stage.")] = 1,
    dropout: Annotated[bool, typer.Option(help="Store dropout masks.")] = False,
    fused_norms: Annotated[bool, typer.Option(help="Norms keep no 32-bit copies.")] = False,
    offload_optimizer: Annotated[bool, typer.Option(help="Optimizer states on the host.")] = False,
    offload_parameters: Annotated[bool, typer.Option(help="Sharded weights on the host.")] = False,
    serve: Annotated[bool, typer.Option(help="The model serves instead of training.")] = False,
    weights: Annotated[WeightFormat, typer.Option(help="Served: storage of weights.")] = WeightFormat.BF16,
    cache: Annotated[CacheFormat, typer.Option(help="Served: storage of the KV cache.")] = CacheFormat.BF16,
    prefill_tokens: Annotated[int | None, typer.Option(help="Served: tokens of one pass.")] = None,
    utilisation: Annotated[
        float | None, typer.Option(help="Served: part of the card that the server takes in any case.")
    ] = None,
    graphs: Annotated[bool, typer.Option(help="Served: CUDA graphs are captured.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; sizes are bytes.")] = False,
) -> int:
    """Estimate the peak GPU memory of a run before it starts."""
    given = given_options(context)
    ignored = ignored_options(given, serve=serve, method=method)
    if listing:
        if ignored:
            raise ArgumentError(ignored[0])
        typer.echo(_list(listing, as_json=as_json))
        return 0
    run: RunSpec
    assumed: list[str] = []
    if serve:
        run = InferenceSpec(
            weights=weights, cache=cache, batch=batch, context_length=4096 if seq is None else seq,
            prefill_tokens=prefill_tokens, image_size=image_size, tensor=tp, pipeline=pp,
            utilisation_ratio=utilisation, graphs=graphs,
        )  # fmt: skip
    else:
        run = TrainingSpec(
            method=method, recipe=recipe or Recipe.BF16_MASTER, optimizer=optimizer, lora_rank=lora_rank,
            optimizer_kernel=optimizer_kernel, lora_targets=lora_targets, loss=loss, attention=attention,
            checkpointing=checkpointing or Checkpointing.FULL, micro_batch=batch,
            sequence_length=2048 if seq is None else seq, image_size=image_size, micro_batches=micro_batches,
            tensor=tp, pipeline=pp, data=dp, context=cp, expert=ep, zero_stage=zero, shard_group=shard_group,
            sequence_parallel=sequence_parallel, virtual_stages=virtual_stages, dropout=dropout,
            fused_norms=fused_norms, offload_optimizer=offload_optimizer,
            offload_parameters=offload_parameters,
        )  # fmt: skip
        if recipe is None and method is Method.FULL:
            assumed.append("--recipe bf16-master (16 bytes per parameter with AdamW)")
        if checkpointing is None:
            assumed.append("--checkpointing full (one layer recomputed at a time)")
        if loss is LossKernel.PLAIN:
            assumed.append("--loss plain (fused or chunked losses need less)")
    if seq is None:
        assumed.append(
            f"--seq {run.sequence_length if isinstance(run, TrainingSpec) else run.context_length}"
        )
    if from_command:
        asked = _from_command(from_command)
    elif layers is not None or hidden is not None:
        shape = TransformerSpec(
            layers=layers or 0, hidden=hidden or 0, heads=heads or 0, kv_heads=kv_heads or heads or 0,
            head_dim=head_dim, ffn=4 * (hidden or 0) if ffn is None else ffn, gated=not plain_ffn,
            vocabulary=32000 if vocabulary is None else vocabulary, tied_embeddings=tied, experts=experts,
            experts_per_token=experts_per_token, parameter_count=parameters,
        )  # fmt: skip
        asked = _Asked(model=shape, run=run, card="", gpu="", guessed=(), assumed=tuple(assumed), unread=(),
                       faults=())  # fmt: skip
    elif activations is not None:
        counts = VisionSpec(
            parameter_count=parameters or 0.0, activation_count=activations, architecture=architecture,
            image_size=image_size or 0,
        )  # fmt: skip
        asked = _Asked(model=counts, run=run, card="", gpu="", guessed=(), assumed=_for_vision(assumed),
                       unread=(), faults=())  # fmt: skip
    else:
        asked = _from_name(model, run, assumed)
        if asked.model is not None:
            ignored += ignored_by_model(given, has_tokens=isinstance(asked.model, TransformerSpec))
    return _answer(asked, gpu or asked.gpu, ignored, as_json=as_json)


def _from_name(name: str, run: RunSpec, assumed: list[str]) -> _Asked:
    found = find_model(name) if name else None
    missing = (
        ()
        if found
        else (unknown_model(name) if name else "no model; pass --model, a shape or --from-command",)
    )
    vision = found is not None and isinstance(found.model, VisionSpec)
    return _Asked(
        model=found.model if found else None, run=run, card=found.card if found else "", gpu="",
        guessed=found.guessed if found else (), assumed=_for_vision(assumed) if vision else tuple(assumed),
        unread=(), faults=missing,
    )  # fmt: skip


def _for_vision(assumed: list[str]) -> tuple[str, ...]:
    """Return the assumptions that say something about a model without tokens."""
    return tuple(line for line in assumed if line.startswith("--recipe"))


def _from_command(text: str) -> _Asked:
    path = Path(text)
    is_file = len(text) < 4096 and "\n" not in text and path.is_file()
    script = path.read_text(encoding="utf-8", errors="replace") if is_file else text
    files = {
        word: Path(word).read_text(encoding="utf-8", errors="replace")
        for word in script.replace("=", " ").split()
        if word.endswith(".json") and Path(word).is_file()
    }
    parsed = parse_command(script, files=files)
    fault = "no model was found in the command; add --model_name_or_path NAME"
    is_path = not is_file and (path.suffix in _SCRIPTS or parsed.model is None) and len(text.split()) == 1
    if is_path:
        fault = f"--from-command {text}: there is no such file; name one, or give a whole command in quotes"
    return _Asked(
        model=parsed.model, run=parsed.run or TrainingSpec(), card=parsed.card, gpu=parsed.gpu, assumed=(),
        guessed=parsed.guessed, unread=parsed.unread,
        faults=(fault,) if is_path or parsed.model is None else (),
    )  # fmt: skip


def _answer(asked: _Asked, gpu_name: str, ignored: list[str], *, as_json: bool) -> int:
    gpu = find_gpu(gpu_name) if gpu_name else None
    found = [*asked.faults, *ignored]
    found += faults(asked.model, asked.run) if asked.model is not None else run_faults(asked.run)
    if gpu_name and gpu is None:
        found.append(unknown_gpu(gpu_name))
    if asked.model is None or found:
        raise ArgumentError(
            f"the memory cannot be estimated: {len(found)} fault{'s' * (len(found) > 1)}", faults=found
        )
    breakdown = estimate(asked.model, asked.run, guessed=asked.guessed)
    fit = None if gpu is None else fit_on(breakdown, gpu, asked.run)
    if as_json:
        answer = plain_estimate(asked.model, asked.run, breakdown, fit, card=asked.card,
                                assumed=asked.assumed, unread=asked.unread)  # fmt: skip
        typer.echo(json.dumps(answer, indent=2))
    else:
        show_estimate(Console(), asked.model, asked.run, breakdown, fit, card=asked.card,
                      assumed=asked.assumed, unread=asked.unread)  # fmt: skip
    return 1 if fit is not None and fit.verdict is Verdict.NO else 0


def _list(what: str, *, as_json: bool) -> str:
    if what == "models":
        names = [card.name for card in model_cards()]
        return json.dumps(names) if as_json else "\n".join(names)
    if what == "gpus":
        rows = {gpu.name: gpu.usable_mib for gpu in gpu_classes()}
        lines = [f"{name:<22} {usable:>9,.0f} MiB usable" for name, usable in rows.items()]
        return json.dumps(rows) if as_json else "\n".join(lines)
    raise ArgumentError(f"--list {what}: pass 'models' or 'gpus'")
