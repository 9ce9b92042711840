"""This module reads policies from TOML files and writes them, each setting with what it means.

The meanings are those of the docstrings of the parts of a policy, so that no second text can differ.
"""

import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from predictor.data.toml_values import toml_value
from predictor.errors import FormatError
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document, policy_from_document

_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*)$")
_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a policy.

    Attributes:
        path: as ``--policy`` and patches name it, such as ``reserve.heads``.
        value, default: as plain values; ``default`` is that of a policy of which nothing is said.
        meaning: what it does, "" where its name says it.
    """

    path: str
    value: object
    default: object
    meaning: str


def read_policy(path: Path) -> Policy:
    """Return the policy of a TOML file; what it does not name keeps its default.

    Raises:
        FormatError: the file cannot be read.
        ArgumentError: with every unknown name, wrong type and value out of range.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FormatError(f"policy file '{path}' cannot be read: {error}") from error
    return policy_from_document(document)


def settings_of(policy: Policy) -> tuple[Setting, ...]:
    """Return every setting of a policy in the order of its parts; lists are one setting each."""
    document, standard = policy_document(policy), policy_document(Policy())
    return tuple(_settings(policy, document, standard, ""))


def policy_toml(policy: Policy) -> str:
    """Return a policy as TOML that :func:`read_policy` reads, with the meaning above each setting."""
    lines = ["# A policy of the queue. What is left out keeps its default."]
    table, told = "", ""
    for each in settings_of(policy):
        *parents, name = each.path.split(".")
        if parents and parents[0] != table:
            table = parents[0]
            lines += ["", f"[{table}]"]
        if each.meaning != told:  # said once of settings that work together
            lines += [f"# {line}" for line in textwrap.wrap(each.meaning, _WIDTH)]
        told = each.meaning
        if each.value != each.default:
            lines.append(f"# (default: {toml_value(each.default)})")
        lines.append(f"{name} = {toml_value(each.value)}")
    return "\n".join(lines) + "\n"


def _settings(part: Any, document: Any, standard: Any, prefix: str) -> Iterator[Setting]:
    """Yield the settings of one part, those of its own before those of its tables (as TOML wants it)."""
    meanings, hints = _meanings(type(part)), get_type_hints(type(part))
    tables = [each.name for each in fields(part) if is_dataclass(getattr(part, each.name))]
    for each in fields(part):
        if each.name not in tables:
            meaning = meanings.get(each.name, "")
            element, *_ = [*get_args(hints[each.name]), None]
            if is_dataclass(element):
                meaning = f"{meaning}: {_of_elements(element)}"
            yield Setting(
                path=prefix + each.name,
                value=document[each.name],
                default=standard[each.name],
                meaning=meaning,
            )
    for name in tables:
        yield from _settings(getattr(part, name), document[name], standard[name], f"{prefix}{name}.")


def _of_elements(kind: Any) -> str:
    """Return what the elements of a list consist of."""
    meanings = _meanings(kind)
    names = [each.name for each in fields(kind)]
    return "; ".join(f"{name} ({meanings[name]})" if name in meanings else name for name in names)


def _meanings(kind: type) -> dict[str, str]:
    """Return what the attributes of a class mean, from its docstring."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            names, text = entry[1].split(", "), entry[2]
        else:
            text = line.strip()
        for name in names:
            meanings[name] = f"{meanings.get(name, '')} {text}".strip()
    return {name: text.rstrip(".").replace("``", "") for name, text in meanings.items()}
