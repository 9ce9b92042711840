"""This module is the registry of model cards: shapes of public models, found by what people call them."""

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from predictor.contracts.workload import ModelSpec, TransformerSpec, VisionArchitecture, VisionSpec
from predictor.errors import ArgumentError
from predictor.forecasting.memory.breakdown import Component, Uncertainty
from predictor.forecasting.memory.generic import generic_transformer, generic_uncertainty
from predictor.forecasting.memory.names import nearest, plain, position, stated_size, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One public model.

    Attributes:
        context_length: longest sequence it was made for; 0 for vision models.
    """

    name: str
    model: ModelSpec
    context_length: int
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """What a name says about a model.

    Attributes:
        card: name of the card; empty where only a size is known.
        guessed: what is not certain.
    """

    model: ModelSpec
    card: str
    context_length: int
    guessed: tuple[Uncertainty, ...] = ()


@lru_cache(maxsize=1)
def model_cards() -> tuple[ModelCard, ...]:
    """Return all cards; the files are read at the first call."""
    return (*_transformer_cards(), *_vision_cards())


def find_model(name: str) -> FoundModel | None:
    """Return the model that a name or path means; None if it names neither a card nor a size.

    The longest name of a card that stands in it wins. Other words beside it make the shape less certain,
    and a name with only a size (``7b``) gives the usual shape of that size with a wide range.

    Examples:
        >>> find_model("meta-llama/Meta-Llama-3-8B-Instruct").card
        'llama-3-8b'
    """
    for part in reversed(name.rstrip("/").split("/")):
        words = words_of(part)
        found = _card_in(words) or _card_in([word for word in words if word not in _words("tunings")])
        if found is not None:
            return found
    sized = stated_size(name.replace("/", " "))
    if sized is None:
        return None
    count, experts = sized
    return FoundModel(model=generic_transformer(count, experts=experts), card="", context_length=2048,
                      guessed=generic_uncertainty(name))  # fmt: skip


def _card_in(words: list[str]) -> FoundModel | None:
    for inner, card in _by_words():
        start = position(list(inner), words)
        if start is None:
            continue
        others = words[:start] + words[start + len(inner) :]
        if stated_size("-".join(others)) is not None:
            return None  # another size of the family
        strange = [word for word in others if word not in _words("tunings") | _words("harmless")]
        guessed = (_other_words(strange, card.model),) if strange else ()
        return FoundModel(
            model=card.model, card=card.name, context_length=card.context_length, guessed=guessed
        )
    return None


def require_model(name: str) -> FoundModel:
    """Return the model that a name means.

    Raises:
        ArgumentError: it names neither a card nor a size.
    """
    found = find_model(name)
    if found is None:
        raise ArgumentError(unknown_model(name))
    return found


def unknown_model(name: str) -> str:
    """Return the sentence that refuses a name and shows what would be understood."""
    close = nearest(name, [card.name for card in model_cards()])
    hint = f"; similar: {', '.join(close)}" if close else ""
    return f"model '{name}' is unknown{hint}; name a model card, or a size such as 7b, or give the shape"


def _other_words(words: list[str], model: ModelSpec) -> Uncertainty:
    """Return how far a variant may lie from its card; vision models are backbones of anything."""
    parts = (Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER, Component.ACTIVATIONS,
             Component.TEMPORARIES)  # fmt: skip
    return Uncertainty(
        what=f"variant of a known model ({' '.join(words[:6])})", components=parts, low_ratio=0.9,
        high_ratio=3.0 if isinstance(model, VisionSpec) else 1.25,
    )  # fmt: skip


@lru_cache(maxsize=2)
def _words(kind: str) -> frozenset[str]:
    """Return words that leave a shape as it is, of one kind."""
    return frozenset(_read("words.toml")[kind])


@lru_cache(maxsize=1)
def _by_words() -> tuple[tuple[tuple[str, ...], ModelCard], ...]:
    """Return all names of all cards as words, longest first."""
    pairs = [(tuple(words_of(name)), card) for card in model_cards() for name in (card.name, *card.aliases)]
    return tuple(sorted(pairs, key=lambda pair: (-len(pair[0]), -len("".join(pair[0])))))


def _read(name: str) -> dict[str, Any]:
    """Read one file of cards; its values are checked by the test that builds every card."""
    text = (resources.files("predictor.forecasting.memory") / "cards" / name).read_text("utf-8")
    return tomllib.loads(text)


def _transformer_cards() -> list[ModelCard]:
    file = _read("transformers.toml")
    cards = []
    for name, row in file["models"].items():
        shape = {**file["defaults"][row.pop("kind")], **row}
        aliases, context = tuple(shape.pop("aliases", ())), shape.pop("context")
        spec = TransformerSpec(parameter_count=float(shape.pop("parameters")), **shape)
        cards.append(
            ModelCard(name=name, model=spec, context_length=context, aliases=tuple(map(plain, aliases)))
        )
    return cards


def _vision_cards() -> list[ModelCard]:
    cards = []
    for name, row in _read("vision.toml")["models"].items():
        spec = VisionSpec(
            parameter_count=row["parameters_m"] * 1e6, activation_count=row["activations_m"] * 1e6,
            image_size=row["image_size"], macs=row["gmacs"] * 1e9,
            architecture=VisionArchitecture(row["architecture"]),
        )  # fmt: skip
        aliases = tuple(plain(alias) for alias in row.get("aliases", ()))
        cards.append(ModelCard(name=name, model=spec, context_length=0, aliases=aliases))
    return cards
