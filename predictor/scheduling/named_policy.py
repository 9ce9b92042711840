"""This module reads a policy as people name it: a preset or TOML file, with settings changed after colons."""

import json
from pathlib import Path

from predictor.errors import ArgumentError
from predictor.scheduling.policy import Policy
from predictor.scheduling.policy_document import policy_document, policy_from_document
from predictor.scheduling.policy_file import read_policy
from predictor.scheduling.presets import preset


def is_file(name: str) -> bool:
    """Return whether a policy is named by a TOML file."""
    return name.partition(":")[0].endswith(".toml")


def named_policy(text: str) -> Policy:
    """Return a preset or a TOML file's policy with settings changed, such as ``ours:reserve.heads=5``.

    Raises:
        ArgumentError: the name or a setting is not known, or out of range.
        FormatError: the file cannot be read.
    """
    name, *changes = text.split(":")
    document = policy_document(read_policy(Path(name)) if is_file(name) else preset(name))
    for change in changes:
        path, _, value = change.partition("=")
        *parents, last = path.split(".")
        part = document
        for parent in parents:
            part = part.setdefault(parent, {})
            if not isinstance(part, dict):
                raise ArgumentError(f"policy '{text}': {parent} is no table, so {path} is not known")
        part[last] = _plain_value(value)
    return policy_from_document(document)


def _plain_value(text: str) -> object:
    for read in (json.loads, float):  # the second knows ".5" and "inf"
        try:
            return read(text)
        except ValueError:
            continue
    return text
