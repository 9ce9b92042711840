"""This module defines what a job computes: the model, and how it is trained or served.

The values are plain descriptions and may be nonsense (they come from people);
:func:`predictor.forecasting.memory.validation.check` names every fault of a model and a run at once.
"""

from dataclasses import dataclass
from enum import StrEnum


class Recipe(StrEnum):
    """In which precision weights (W), gradients (G) and optimizer states (O) are held, AdamW as example.

    ::

        value              W  G  O            sum   who
        fp32               4  4  8             16   plain PyTorch
        amp                4  4  8             16   autocast over fp32 masters (+ 2 of cast cache at most)
        bf16-master        2  2  4 + 8         16   ZeRO paper
        bf16-main-grads    2  4  4 + 8         18   Megatron
        deepspeed          2  2 + 4  4 + 8     20   DeepSpeed's own estimator
        bf16-fp32-states   2  2  8             12   bf16 weights without a master, fp32 moments
        pure-bf16          2  2  4              8   everything in bf16
    """

    FP32 = "fp32"
    AMP = "amp"
    BF16_MASTER = "bf16-master"
    BF16_MAIN_GRADS = "bf16-main-grads"
    DEEPSPEED = "deepspeed"
    BF16_FP32_STATES = "bf16-fp32-states"
    PURE_BF16 = "pure-bf16"


class Optimizer(StrEnum):
    """Optimizers, told apart by the states they hold per parameter."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw-8bit"
    MOMENTUM = "momentum"
    SGD = "sgd"
    LION = "lion"
    MUON = "muon"
    ADAFACTOR = "adafactor"


class OptimizerKernel(StrEnum):
    """How the optimizer steps: foreach holds a temporary as large as the parameters, fused none."""

    FOREACH = "foreach"
    FUSED = "fused"


class Method(StrEnum):
    """What is trained, and how the frozen rest is stored."""

    FULL = "full"
    LORA = "lora"
    QLORA_NF4 = "qlora-nf4"
    QLORA_NF4_DOUBLE = "qlora-nf4-double"
    QLORA_INT8 = "qlora-int8"

    @property
    def is_adapter(self) -> bool:
        """Whether the base model is frozen and adapters are trained."""
        return self is not Method.FULL

    @property
    def is_quantised(self) -> bool:
        """Whether the frozen base model is stored in fewer than 16 bits."""
        return self in (Method.QLORA_NF4, Method.QLORA_NF4_DOUBLE, Method.QLORA_INT8)


class Checkpointing(StrEnum):
    """Which activations are recomputed in the backward pass: none, the attention core, or whole layers."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class AttentionKernel(StrEnum):
    """Eager attention stores the score matrix (sequence x sequence), flash kernels do not."""

    EAGER = "eager"
    FLASH = "flash"


class LossKernel(StrEnum):
    """How logits become a loss: all at once, all at once in a fused kernel, or by chunks of tokens."""

    PLAIN = "plain"
    FUSED = "fused"
    CHUNKED = "chunked"


class LoraTargets(StrEnum):
    """The linear layers that get adapters."""

    QV = "qv"
    ATTENTION = "attention"
    ALL_LINEAR = "all-linear"


class WeightFormat(StrEnum):
    """Storage of weights for inference; embeddings and head stay in 16 bits in the formats below 16."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    NF4 = "nf4"


class CacheFormat(StrEnum):
    """Storage of the KV cache."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP8 = "fp8"


class VisionArchitecture(StrEnum):
    """Tells how many stored tensors stand behind each counted activation of a vision model."""

    CONVOLUTION = "convolution"  # activations as timm counts them: outputs of convolutions
    ATTENTION = "attention"  # likewise, outputs of linear layers and scores
    COUNTED = "counted"  # the count is over the outputs of all layers
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec:
    """Shape of a transformer.

    Attributes:
        layers: blocks; of an encoder-decoder both halves.
        ffn: width of the feed-forward block; of one expert where there are experts.
        head_dim: ``hidden / heads`` where not given.
        experts, experts_per_token: 0 = a dense model. ``shared_experts`` always run, each ``ffn`` wide.
        dense_layers, dense_ffn: leading layers without experts, and their width.
        cross_attention_layers: blocks with a second attention (decoders of encoder-decoders).
        kv_latent, rope_dim, q_latent, value_dim: multi-head latent attention (0 = ordinary attention);
            ``head_dim`` is then the part without position.
        sliding_window: tokens that a layer looks back; None = all.
        full_attention_layers: how many layers ignore the window.
        positions: learned position embeddings. token_types: rows of a segment table.
        biases: which linear layers have biases: ``none``, ``qkv``, ``attention`` or ``all``.
        norm_biases: LayerNorm (weight and bias) instead of RMSNorm.
        norms_per_layer: 2; 4 in models that also normalise outputs; 1 in parallel blocks.
        extra_parameters: parameters that the structure above does not tell.
        parameter_count: the stated count; None = computed from the structure.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    head_dim: int | None = None
    gated: bool = True
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    cross_attention_layers: int = 0
    kv_latent: int = 0
    rope_dim: int = 0
    q_latent: int = 0
    value_dim: int = 0
    sliding_window: int | None = None
    full_attention_layers: int = 0
    positions: int = 0
    token_types: int = 0
    biases: str = "none"
    norm_biases: bool = False
    norms_per_layer: int = 2
    query_key_norms: bool = False
    final_norm: bool = True
    extra_parameters: int = 0
    parameter_count: float | None = None

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.head_dim if self.head_dim is not None else self.hidden // max(self.heads, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionSpec:
    """A vision (or any) model of which parameters and activations are counted.

    Attributes:
        parameter_count: parameters.
        activation_count: elements per sample at ``image_size``.
        image_size: edge in pixels that the counts belong to; 0 = inputs are no images.
        macs: multiply-accumulates per sample; only carried along.
    """

    parameter_count: float
    activation_count: float
    image_size: int = 224
    macs: float | None = None
    architecture: VisionArchitecture = VisionArchitecture.UNKNOWN


ModelSpec = TransformerSpec | VisionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """How a model is trained; sizes are per GPU where they say micro, groups count GPUs.

    Attributes:
        micro_batch: sequences (or images) per GPU and forward pass.
        sequence_length: tokens of the longest sequence; ignored for vision models.
        image_size: edge in pixels; None = that of the model.
        micro_batches: forward passes per optimizer step (gradient accumulation, or those of a pipeline).
        tensor, pipeline, data, context, expert: degrees of parallelism; ``expert`` is a part of ``data``.
        zero_stage: 0 = replicas; 1, 2, 3 as ZeRO; 3 = FSDP full shard, 2 = FSDP shard-grad-op.
        shard_group: GPUs over which ZeRO shards; None = all of ``data * context``.
        optimizer_kernel: None = what the recipe usually comes with.
        sequence_parallel: norms and inputs are split over the tensor group too.
        fused_norms: RMSNorm keeps no copies in 32 bits.
        half_logits: the loss is computed in 16 bits, as older decoders of transformers do (GPT-2, BigCode).
        virtual_stages: model chunks per pipeline stage (interleaved schedule).
        dropout: dropout masks are stored.
    """

    method: Method = Method.FULL
    recipe: Recipe = Recipe.BF16_MASTER
    optimizer: Optimizer = Optimizer.ADAMW
    optimizer_kernel: OptimizerKernel | None = None
    lora_rank: int = 16
    lora_targets: LoraTargets = LoraTargets.ATTENTION
    checkpointing: Checkpointing = Checkpointing.NONE
    attention: AttentionKernel = AttentionKernel.FLASH
    loss: LossKernel = LossKernel.PLAIN
    micro_batch: int = 1
    sequence_length: int = 2048
    image_size: int | None = None
    micro_batches: int = 1
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    zero_stage: int = 0
    shard_group: int | None = None
    sequence_parallel: bool = False
    virtual_stages: int = 1
    dropout: bool = False
    fused_norms: bool = False
    half_logits: bool = False
    offload_optimizer: bool = False
    offload_parameters: bool = False

    @property
    def gpu_count(self) -> int:
        """GPUs of the whole run."""
        return self.tensor * self.pipeline * self.data * self.context


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSpec:
    """How a model is served.

    Attributes:
        batch: sequences that hold a cache at the same time.
        context_length: tokens per sequence, prompt and answer.
        prefill_tokens: tokens of one forward pass; None = the smaller of one context and 8192.
        utilisation_ratio: part of the card that the server reserves whatever it needs; None = it does not.
        graphs: CUDA graphs are captured.
    """

    weights: WeightFormat = WeightFormat.BF16
    cache: CacheFormat = CacheFormat.BF16
    batch: int = 1
    context_length: int = 4096
    prefill_tokens: int | None = None
    image_size: int | None = None
    tensor: int = 1
    pipeline: int = 1
    utilisation_ratio: float | None = None
    graphs: bool = False

    @property
    def gpu_count(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline


RunSpec = TrainingSpec | InferenceSpec
