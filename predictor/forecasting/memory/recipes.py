"""This module says how many bytes a parameter costs in weights, gradients and optimizer states."""

from dataclasses import dataclass

from predictor.contracts.workload import (
    Method,
    Optimizer,
    OptimizerKernel,
    Recipe,
    TrainingSpec,
    WeightFormat,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes per trained parameter.

    Attributes:
        weights, gradients: as the model holds them.
        master: the optimizer's own copy of the weights.
        moments: all other states of the optimizer together.
        temporary: what the optimizer step allocates besides.
    """

    weights: float
    gradients: float
    master: float
    moments: float
    temporary: float

    @property
    def optimizer(self) -> float:
        """Master weights and moments."""
        return self.master + self.moments

    @property
    def total(self) -> float:
        """Weights, gradients and optimizer, as papers count them."""
        return self.weights + self.gradients + self.master + self.moments


# recipe -> weights, gradients, master, one moment; see Recipe for who uses which
_RECIPES = {
    Recipe.FP32: (4.0, 4.0, 0.0, 4.0),
    Recipe.AMP: (4.0, 4.0, 0.0, 4.0),
    Recipe.BF16_MASTER: (2.0, 2.0, 4.0, 4.0),
    Recipe.BF16_MAIN_GRADS: (2.0, 4.0, 4.0, 4.0),
    Recipe.DEEPSPEED: (2.0, 6.0, 4.0, 4.0),
    Recipe.BF16_FP32_STATES: (2.0, 2.0, 0.0, 4.0),
    Recipe.PURE_BF16: (2.0, 2.0, 0.0, 2.0),
}
# Adafactor keeps row and column sums only, which are nothing beside the matrix (Shazeer and Stern, 2018).
_MOMENTS = {
    Optimizer.ADAMW: 2, Optimizer.ADAMW_8BIT: 2, Optimizer.MOMENTUM: 1, Optimizer.LION: 1,
    Optimizer.MUON: 1, Optimizer.SGD: 0, Optimizer.ADAFACTOR: 0,
}  # fmt: skip
_FUSED_BY_HABIT = (Recipe.BF16_MASTER, Recipe.BF16_MAIN_GRADS, Recipe.DEEPSPEED)
_WEIGHT_BYTES = {
    WeightFormat.FP32: 4.0, WeightFormat.BF16: 2.0, WeightFormat.FP8: 1.0, WeightFormat.INT8: 1.0,
    # 4 bits and one scale and zero point of 32 bits together per group of 128 (GPTQ, Frantar et al., 2022)
    WeightFormat.INT4: 0.5 + 4.0 / 128.0,
    WeightFormat.NF4: 0.5 + 4.0 / 64.0,
}  # fmt: skip
# QLoRA: 4 bits, and one absmax of 32 bits per block of 64; quantised twice: 8 bits per block of 64 and
# 32 bits per 256 of those (Dettmers, Pagnoni, Holtzman, Zettlemoyer, "QLoRA", 2023, section 3).
_BASE_BYTES = {
    Method.LORA: 2.0,
    Method.QLORA_NF4: 0.5 + 4.0 / 64.0,
    Method.QLORA_NF4_DOUBLE: 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0),
    Method.QLORA_INT8: 1.0,
}


def state_bytes(recipe: Recipe, optimizer: Optimizer = Optimizer.ADAMW,
                kernel: OptimizerKernel | None = None) -> StateBytes:  # fmt: skip
    """Return the bytes per trained parameter of a recipe with an optimizer.

    References:
        Rajbhandari, Rasley, Ruwase, He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
        Models", 2020, section 3.1: 2 + 2 + 12 bytes with AdamW in mixed precision.
        Dettmers, Lewis, Shleifer, Zettlemoyer, "8-bit Optimizers via Block-wise Quantization", 2022.

    Notes:
        A foreach step holds one temporary as large as what it updates: measured on full fine-tunes in
        pure bf16, whose peak is 10.0 bytes per parameter where 8 are held (Mistral-7B 72.43 GB, Llama-3-8B
        80.32 GB, PowerLM-3B 35.13 GB), and on fp32 networks (20 to 21 where 16 are held).
    """
    weights, gradients, master, moment = _RECIPES[recipe]
    each = 1.0 if optimizer is Optimizer.ADAMW_8BIT else moment
    if kernel is None:
        fused = recipe in _FUSED_BY_HABIT or optimizer is Optimizer.ADAMW_8BIT
        kernel = OptimizerKernel.FUSED if fused else OptimizerKernel.FOREACH
    return StateBytes(
        weights=weights, gradients=gradients, master=master, moments=_MOMENTS[optimizer] * each,
        temporary=(master or weights) if kernel is OptimizerKernel.FOREACH else 0.0,
    )  # fmt: skip


def adapter_bytes(run: TrainingSpec) -> StateBytes:
    """Return the bytes per parameter of an adapter: 32 bits whatever the recipe (PEFT upcasts them)."""
    return state_bytes(Recipe.FP32, run.optimizer, run.optimizer_kernel)


def base_weight_bytes(method: Method) -> float:
    """Return the bytes per parameter of the frozen linear layers under adapters."""
    return _BASE_BYTES[method]


def served_weight_bytes(weights: WeightFormat) -> float:
    """Return the bytes per parameter of linear layers that only serve."""
    return _WEIGHT_BYTES[weights]


def compute_bytes(recipe: Recipe) -> float:
    """Return the bytes per element in which activations are stored."""
    return 4.0 if recipe is Recipe.FP32 else 2.0
