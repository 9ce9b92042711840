"""This module turns the facts of a submission into a training run or a server, and says what it guessed."""

from dataclasses import dataclass, field

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
    TrainingSpec,
    TransformerSpec,
    VisionSpec,
    WeightFormat,
)
from predictor.forecasting.memory.breakdown import Component, Uncertainty
from predictor.forecasting.memory.parsing_keys import Facts

SERVERS = (
    "vllm", "sglang", "text-generation-launcher", "text_generation", "trtllm", "tritonserver", "lmdeploy",
    "llama-server",
)  # fmt: skip
_STATES = (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER, Component.TEMPORARIES)
_TOKENS = (Component.ACTIVATIONS, Component.LOGITS)
_USUAL_BATCH = 8  # default of transformers' trainer
_USUAL_SEQUENCE = 2048
_OPTIMIZERS = (
    ("8bit", Optimizer.ADAMW_8BIT), ("8_bit", Optimizer.ADAMW_8BIT), ("adafactor", Optimizer.ADAFACTOR),
    ("lion", Optimizer.LION), ("muon", Optimizer.MUON), ("sgd", Optimizer.MOMENTUM),
    ("momentum", Optimizer.MOMENTUM), ("rmsprop", Optimizer.MOMENTUM), ("lamb", Optimizer.ADAMW),
    ("adam", Optimizer.ADAMW),
)  # fmt: skip
_FORMATS = (
    ("awq", WeightFormat.INT4), ("gptq", WeightFormat.INT4), ("marlin", WeightFormat.INT4),
    ("int4", WeightFormat.INT4), ("bitsandbytes", WeightFormat.NF4), ("nf4", WeightFormat.NF4),
    ("fp8", WeightFormat.FP8),
    ("int8", WeightFormat.INT8), ("w8a8", WeightFormat.INT8),
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Guesses:
    """Collects what was guessed while a run is read."""

    made: list[Uncertainty] = field(default_factory=list)

    def add(self, what: str, components: tuple[Component, ...], low: float, high: float) -> None:
        """Note a guess and by which factors the components it touches may be off."""
        self.made.append(Uncertainty(what=what, components=components, low_ratio=low, high_ratio=high))


def is_server(facts: Facts) -> bool:
    """Whether the program serves a model instead of training it."""
    return any(name in facts.program for name in SERVERS) or facts.text("task") in ("inference", "serving")


def read_training(facts: Facts, model: ModelSpec, longest: int, guesses: Guesses) -> TrainingSpec:
    """Return the training run that the facts describe.

    Args:
        longest: tokens that the model can take, 0 = not known.
    """
    gpus = _gpus(facts)
    tensor, pipeline, context = (facts.count(name) or 1 for name in ("tensor", "pipeline", "context"))
    split = tensor * pipeline * context
    data = max(gpus // split, 1)
    if gpus % split and gpus > 1:
        guesses.add(
            f"{gpus} GPUs are no multiple of tensor x pipeline x context = {split}", _STATES, 0.7, 1.5
        )
    method = _method(facts, model)
    stage = _zero_stage(facts, guesses)
    micro_batches = facts.count("accumulation") or 1
    megatron = (
        any(name in facts.texts for name in ("recompute", "distributed_optimizer"))
        or "megatron" in facts.program
    )
    return TrainingSpec(
        method=method, recipe=_recipe(facts, method, guesses, megatron=megatron), optimizer=_optimizer(facts),
        optimizer_kernel=OptimizerKernel.FUSED if "fused" in facts.text("optimizer") else None,
        lora_rank=facts.count("lora_rank") or 16, lora_targets=_targets(facts),
        checkpointing=_checkpointing(facts, guesses, model), attention=_attention(facts, guesses, model),
        loss=_loss(facts), micro_batch=_micro_batch(facts, data * micro_batches, guesses),
        sequence_length=_sequence(facts, model, longest, context, guesses), image_size=facts.count("image"),
        micro_batches=micro_batches, tensor=tensor, pipeline=pipeline, data=data, context=context,
        expert=_expert(facts, model, data * context), zero_stage=stage, fused_norms=megatron,
        sequence_parallel=bool(facts.flag("sequence_parallel")) and tensor > 1,
        offload_optimizer=_offloads(facts, "offload_optimizer"),
        offload_parameters=_offloads(facts, "offload_parameters") and stage == 3,
    )  # fmt: skip


def read_inference(facts: Facts, model: ModelSpec, context_length: int, guesses: Guesses) -> InferenceSpec:
    """Return the server that the facts describe."""
    length = facts.count("served_length") or facts.count("sequence") or context_length or 4096
    sequences = facts.count("served_sequences") or facts.count("batch") or 1
    if any(name in facts.program for name in SERVERS):
        # their cache is paged: what must fit is one whole sequence, more makes them faster
        sequences = 1
        guesses.add("cache beyond one whole sequence", (Component.KV_CACHE,), 1.0, 4.0)
    weights = WeightFormat.BF16
    named = f"{facts.text('quantisation')} {facts.text('model')} {facts.text('dtype')} {facts.program}"
    for name, kind in _FORMATS:
        if name in named:
            weights = kind
            break
    else:
        if facts.text("dtype") in ("float32", "fp32", "float"):
            weights = WeightFormat.FP32
    ratio = facts.number("utilisation")
    if ratio is None and "vllm" in facts.program:
        ratio = 0.9
    return InferenceSpec(
        weights=weights, cache=CacheFormat.FP8 if "fp8" in facts.text("cache_dtype") else CacheFormat.BF16,
        batch=sequences, context_length=length, prefill_tokens=facts.count("served_tokens"),
        tensor=1 if isinstance(model, VisionSpec) else facts.count("tensor") or 1,
        pipeline=1 if isinstance(model, VisionSpec) else facts.count("pipeline") or 1,
        utilisation_ratio=ratio, graphs="vllm" in facts.program and not facts.flag("eager"),
    )  # fmt: skip


def _gpus(facts: Facts) -> int:
    whole = facts.count("all_processes")
    if whole is not None:
        return whole
    return (facts.count("processes") or 1) * (facts.count("nodes") or 1)


def _method(facts: Facts, model: ModelSpec) -> Method:
    if isinstance(model, VisionSpec):
        return Method.FULL
    bits = facts.text("bits")
    if facts.flag("four_bit") or bits == "4":
        return Method.QLORA_NF4_DOUBLE if facts.flag("double_quantisation") else Method.QLORA_NF4
    if facts.flag("eight_bit") or bits == "8":
        return Method.QLORA_INT8
    named = facts.text("lora")
    if named in ("full", "freeze", "pt", "prompt"):
        return Method.FULL
    if facts.flag("lora") or facts.count("lora_rank") is not None or "lora" in facts.program:
        return Method.QLORA_NF4 if "qlora" in f"{named} {facts.program}" else Method.LORA
    return Method.FULL


def _recipe(facts: Facts, method: Method, guesses: Guesses, *, megatron: bool) -> Recipe:
    dtype = facts.text("dtype")
    half_weights = (
        any(name in dtype for name in ("bfloat16", "bf16", "float16", "fp16", "half"))
        and "mixed" not in dtype
    )
    switch = bool(facts.flag("bf16") or facts.flag("fp16")) or "mixed" in dtype
    if method.is_adapter:
        if not (half_weights or switch or method.is_quantised):
            guesses.add("precision of the frozen weights", (Component.WEIGHTS,), 1.0, 2.0)
        return Recipe.PURE_BF16
    if megatron:
        return Recipe.BF16_MAIN_GRADS if switch or half_weights else Recipe.FP32
    if facts.flag("pure_bf16"):
        return Recipe.PURE_BF16
    if _uses_deepspeed(facts) and (switch or half_weights):
        return Recipe.BF16_MASTER
    if "mixed_precision" in facts.texts or switch:
        guesses.add("weights in 32 bits under autocast, or in 16", _STATES, 0.5, 1.0)
        return Recipe.AMP
    if half_weights:
        guesses.add("weights in 16 bits throughout, or with a master copy", _STATES, 1.0, 2.0)
        return Recipe.PURE_BF16
    if "dtype" not in facts.texts:
        guesses.add("precision", (*_STATES, *_TOKENS), 0.5, 1.0)
    return Recipe.FP32


def _uses_deepspeed(facts: Facts) -> bool:
    return bool(facts.flag("deepspeed")) or "zero_stage" in facts.texts or "deepspeed" in facts.program


def _zero_stage(facts: Facts, guesses: Guesses) -> int:
    how = f"{facts.text('parallelism')} {facts.text('deepspeed')} {facts.text('fsdp')}"
    stage = facts.text("zero_stage").removeprefix("zero").strip("-_ ")
    if stage in ("0", "1", "2", "3"):
        return int(stage)
    for number in ("1", "2", "3"):
        if any(f"{name}{number}" in how for name in ("zero", "zero-", "zero_", "z", "stage", "stage_")):
            return int(number)
    if any(name in how for name in ("shard_grad_op", "_grad_op")):
        return 2
    if "no_shard" in how:
        return 0
    if (facts.flag("fsdp") and facts.text("fsdp") != "ddp") or "fsdp" in how or "full_shard" in how:
        return 3
    if _uses_deepspeed(facts):
        guesses.add(
            "ZeRO stage (taken as 2)", (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER), 0.3, 2.5
        )
        return 2
    return 1 if facts.flag("distributed_optimizer") else 0


def _optimizer(facts: Facts) -> Optimizer:
    named = facts.text("optimizer")
    return next((kind for name, kind in _OPTIMIZERS if name in named), Optimizer.ADAMW)


def _targets(facts: Facts) -> LoraTargets:
    named = facts.text("lora_targets")
    if any(name in named for name in ("all", "gate_proj", "up_proj", "down_proj", "fc1", "dense_h_to_4h")):
        return LoraTargets.ALL_LINEAR
    if "q_proj" in named and "v_proj" in named and "k_proj" not in named:
        return LoraTargets.QV
    return LoraTargets.ATTENTION


def _checkpointing(facts: Facts, guesses: Guesses, model: ModelSpec) -> Checkpointing:
    granularity = facts.text("recompute")
    if granularity in ("full", "selective"):
        return Checkpointing(granularity)
    switch = facts.flag("checkpointing")
    if switch is None and isinstance(model, TransformerSpec):
        guesses.add("gradient checkpointing (taken as off)", (Component.ACTIVATIONS,), 0.3, 1.0)
    if facts.text("checkpointing") == "selective":
        return Checkpointing.SELECTIVE
    return Checkpointing.FULL if switch else Checkpointing.NONE


def _attention(facts: Facts, guesses: Guesses, model: ModelSpec) -> AttentionKernel:
    named = facts.text("attention")
    if named == "eager" or facts.flag("attention") is False:
        return AttentionKernel.EAGER
    if not named and isinstance(model, TransformerSpec):
        guesses.add(
            "attention kernel (taken as one without score matrix)", (Component.ACTIVATIONS,), 1.0, 1.5
        )
    return AttentionKernel.FLASH


def _loss(facts: Facts) -> LossKernel:
    if facts.flag("liger"):
        return LossKernel.CHUNKED
    return LossKernel.FUSED if facts.flag("fused_loss") else LossKernel.PLAIN


def _micro_batch(facts: Facts, shares: int, guesses: Guesses) -> int:
    exact = facts.count("micro_batch")
    if exact is not None:
        return exact
    whole = facts.count("global_batch")
    if whole is not None:
        return max(whole // shares, 1)
    loose = facts.count("batch")
    if loose is not None:
        if shares > 1:
            guesses.add("batch size per GPU, or over all", _TOKENS, 1.0 / shares, 1.0)
        return loose
    guesses.add(f"batch size (taken as {_USUAL_BATCH})", _TOKENS, 1.0 / _USUAL_BATCH, 4.0)
    return _USUAL_BATCH


def _sequence(facts: Facts, model: ModelSpec, longest: int, context: int, guesses: Guesses) -> int:
    length = facts.count("sequence")
    if length is None:
        length = min(_USUAL_SEQUENCE, longest or _USUAL_SEQUENCE)
        if isinstance(model, TransformerSpec):
            high = min(4.0, longest / length) if longest else 4.0
            guesses.add(f"sequence length (taken as {length})", _TOKENS, 0.25, high)
    return max(length // context, 1) * context


def _expert(facts: Facts, model: ModelSpec, replicas: int) -> int:
    expert = facts.count("expert") or 1
    experts = model.experts if isinstance(model, TransformerSpec) else 0
    return expert if experts and experts % expert == 0 and replicas % expert == 0 else 1


def _offloads(facts: Facts, what: str) -> bool:
    return facts.flag(what) is True and facts.text(what) not in ("none", "cuda", "gpu")
