"""This module finds options of ``predictor estimate-vram`` that would change nothing, to be refused."""

from collections.abc import Mapping

from pipelines.given_options import ignored_fault
from predictor.contracts.workload import Method

_LISTED = frozenset({"listing", "as_json"})
_READ = frozenset({"from_command", "gpu", "as_json"})
_SHAPE = frozenset(
    {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary", "experts",
     "experts_per_token", "plain_ffn", "tied"}
)  # fmt: skip
_COUNTS = frozenset({"activations", "architecture"})
_MODEL = frozenset({"model", "parameters"}) | _SHAPE | _COUNTS
_TRAINED = frozenset(
    {"method", "recipe", "optimizer", "optimizer_kernel", "lora_rank", "lora_targets", "checkpointing",
     "attention", "loss", "micro_batches", "dp", "cp", "ep", "zero", "shard_group", "sequence_parallel",
     "virtual_stages", "dropout", "fused_norms", "offload_optimizer", "offload_parameters"}
)  # fmt: skip
_SERVED = frozenset({"weights", "cache", "prefill_tokens", "utilisation", "graphs"})
_OF_TOKENS = frozenset(
    {"seq", "attention", "loss", "checkpointing", "lora_rank", "lora_targets", "dropout", "fused_norms",
     "sequence_parallel", "virtual_stages", "cache", "prefill_tokens"}
)  # fmt: skip


def ignored_options(given: Mapping[str, str], *, serve: bool, method: Method) -> list[str]:
    """Return a fault for each reason why options that were given would change nothing.

    Args:
        given: parameter: option, of the options that the call gave.
    """
    if "listing" in given:
        return ignored_fault(given, given.keys() - _LISTED, "a list is printed whatever else is asked for")
    if "from_command" in given:
        return ignored_fault(
            given, given.keys() - _READ, "model and run are those of --from-command; say it in the command"
        )
    faults = []
    if given.keys() & {"layers", "hidden"}:
        faults += ignored_fault(given, _MODEL - _SHAPE - {"parameters"}, "the model is the shape given")
    elif "activations" in given:
        faults += ignored_fault(given, {"model"} | _SHAPE, "the model is the counts given")
        faults += ignored_fault(given, {"image_size"}, "--activations are counted at the size of the images")
    elif "model" in given:
        faults += ignored_fault(given, _MODEL - {"model"}, "the model is the card or size of --model")
    else:
        faults += ignored_fault(
            given, _MODEL, "a shape needs --layers and --hidden, counts need --parameters and --activations"
        )
    if "experts" not in given and given.keys() & {"layers", "hidden"}:
        faults += ignored_fault(given, {"experts_per_token"}, "the shape has no --experts")
    if serve:
        faults += ignored_fault(given, _TRAINED, "a model with --serve is not trained")
        return faults
    faults += ignored_fault(given, _SERVED, "without --serve the model is trained")
    if not method.is_adapter:
        faults += ignored_fault(given, {"lora_rank", "lora_targets"}, f"--method {method} has no adapters")
    return faults


def ignored_by_model(given: Mapping[str, str], *, has_tokens: bool) -> list[str]:
    """Return what is said of the run that the kind of the model leaves without effect."""
    if has_tokens:
        return ignored_fault(given, {"image_size"}, "a transformer takes tokens, not images")
    return ignored_fault(given, _OF_TOKENS, "a model known by its counts has neither tokens nor layers")
