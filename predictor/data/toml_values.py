"""This module writes plain values as TOML, which the standard library only reads."""

import json
from collections.abc import Mapping, Sequence


def toml_value(value: object) -> str:
    """Return a text, number, truth value, list or mapping as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # the escapes of JSON are those of TOML, which wants one for the last control character too
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {toml_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
