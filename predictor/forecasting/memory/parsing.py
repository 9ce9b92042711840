"""This module reads what submissions carry (command lines, scripts, parameters, job rows) into specs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from predictor.contracts.workload import InferenceSpec, ModelSpec, RunSpec, TransformerSpec
from predictor.forecasting.memory.breakdown import Component, Uncertainty
from predictor.forecasting.memory.card_registry import FoundModel, find_model
from predictor.forecasting.memory.generic import generic_transformer, generic_uncertainty
from predictor.forecasting.memory.gpus import find_gpu
from predictor.forecasting.memory.names import stated_size
from predictor.forecasting.memory.parsing_keys import Facts, gather
from predictor.forecasting.memory.parsing_runs import Guesses, is_server, read_inference, read_training
from predictor.forecasting.memory.parsing_words import Settings, read_command, read_json, read_mapping
from predictor.forecasting.memory.validation import faults

_PATH = re.compile(r"[\w.\-/]*[A-Za-z][\w.\-/]*")
_SCRIPT = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".txt", ".parquet", ".jsonl", ".csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedWorkload:
    """What a submission says about its memory.

    Attributes:
        model, run: None where no model could be found; the run then has nothing to belong to.
        card: model card; empty for a shape guessed from a size.
        gpu: GPU class, empty if none is named.
        guessed: what was not said and had to be guessed, for :func:`estimate`.
        unread: settings that were recognised but whose value made no sense.
    """

    model: ModelSpec | None
    run: RunSpec | None
    card: str = ""
    gpu: str = ""
    guessed: tuple[Uncertainty, ...] = ()
    unread: tuple[str, ...] = ()


def parse_command(text: str, *, files: Mapping[str, str] | None = None) -> ParsedWorkload:
    """Read a command line or a batch script.

    Args:
        files: texts of configuration files by the name that the command gives them (DeepSpeed JSON);
            settings of the command win over those of its files.

    Examples:
        >>> parsed = parse_command("torchrun --nproc_per_node 8 train.py --model_name_or_path "
        ...     "meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 4 --bf16 --fsdp full_shard")
        >>> parsed.card, parsed.run.data, parsed.run.zero_stage
        ('llama-3-8b', 8, 3)
    """
    settings = read_command(text)
    for name, content in (files or {}).items():
        if any(
            name in (value, value.rsplit("/", 1)[-1])
            for value in (*settings.values.values(), *settings.words)
        ):
            _add_below(settings, read_json(content))
    inline = settings.values.get("deepspeed", "")
    if inline.startswith("{"):
        _add_below(settings, read_json(inline))
    return _parse(settings)


def parse_parameters(parameters: Mapping[str, object]) -> ParsedWorkload:
    """Read parameters of a run, as experiment trackers keep them, or a configuration, nested or not."""
    return _parse(read_mapping(parameters))


def parse_job(row: Mapping[str, object]) -> ParsedWorkload:
    """Read a row of the canonical job table: its own columns win over its submit line.

    ``batch_size`` of the table is that over all GPUs.
    """
    present = {key: value for key, value in row.items() if not _missing(value)}
    settings = read_command(str(present.pop("submit_line", "")))
    columns = read_mapping(present)
    if "batch_size" in columns.values:
        columns.values["global_batch_size"] = columns.values.pop("batch_size")
    for key, value in columns.values.items():
        settings.values[key] = _whole(value)
    if not settings.values.get("model_family") and "job_name" in present:
        settings.words.append(str(present["job_name"]))
    return _parse(settings)


def _add_below(settings: Settings, others: Settings) -> None:
    for key, value in others.values.items():
        settings.values.setdefault(key, value)


def _parse(settings: Settings) -> ParsedWorkload:
    facts = gather(settings.values, settings.words)
    found = _model(facts, settings.words)
    gpu = _gpu(facts)
    if found is None:
        return ParsedWorkload(model=None, run=None, gpu=gpu, unread=tuple(facts.unreadable))
    guesses = Guesses(made=list(found.guessed))
    run: RunSpec
    if is_server(facts):
        run = read_inference(facts, found.model, found.context_length, guesses)
    else:
        longest = found.context_length if found.card else 0
        run = read_training(facts, found.model, longest, guesses)
    run = _possible(found.model, run, guesses)
    return ParsedWorkload(model=found.model, run=run, card=found.card, gpu=gpu,
                          guessed=tuple(guesses.made), unread=tuple(facts.unreadable))  # fmt: skip


def _possible(model: ModelSpec, run: RunSpec, guesses: Guesses) -> RunSpec:
    """Return the run, or where the model cannot be split so, one of as many GPUs without such a split."""
    if not faults(model, run):
        return run
    guesses.add(
        "a split that the model cannot have (taken as replicas)",
        (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER, Component.ACTIVATIONS),
        1.0 / run.gpu_count, 1.5,
    )  # fmt: skip
    if isinstance(run, InferenceSpec):
        return replace(run, tensor=1, pipeline=1, utilisation_ratio=None)
    return replace(
        run, tensor=1, pipeline=1, context=1, expert=1, virtual_stages=1, data=run.gpu_count,
        sequence_parallel=False, shard_group=None,
    )  # fmt: skip


def _model(facts: Facts, words: list[str]) -> FoundModel | None:
    named = find_model(facts.texts["model"]) if "model" in facts.texts else None
    count = _stated_count(facts)
    if named is None:
        candidates = [word for word in words if _PATH.fullmatch(word) and not word.endswith(_SCRIPT)]
        candidates += [word.rsplit(".", 1)[0] for word in words if word.endswith(_SCRIPT)]
        named = next((model for model in map(find_model, candidates) if model is not None), None)
    if count is None:
        return named
    if named is None or (not named.card and isinstance(named.model, TransformerSpec)):
        return FoundModel(model=generic_transformer(count), card="", context_length=2048,
                          guessed=generic_uncertainty("a stated count")[1:])  # fmt: skip
    if isinstance(named.model, TransformerSpec):
        return replace(named, model=replace(named.model, parameter_count=count))
    return replace(named, model=replace(named.model, parameter_count=count))


def _stated_count(facts: Facts) -> float | None:
    text = facts.text("parameters")
    if not text:
        return None
    sized = stated_size(text)
    count = sized[0] if sized is not None else facts.number("parameters")
    return count if count is not None and count >= 1e5 else None


def _gpu(facts: Facts) -> str:
    for word in re.split(r"[:,\s=&|]+", facts.text("gpu")):
        gpu = find_gpu(word) if word else None
        if gpu is not None:
            return gpu.name
    return ""


def _missing(value: object) -> bool:
    return value is None or str(value) in ("", "<NA>", "NaT", "nan")


def _whole(text: str) -> str:
    """Return numbers of a table without the fraction that its floats carry."""
    return text.removesuffix(".0") if re.fullmatch(r"\d+\.0", text) else text
