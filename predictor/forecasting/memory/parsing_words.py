"""This module reads settings out of command lines, scripts and nested configurations, as key and text."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping

_KEY = re.compile(r"[A-Za-z_][\w.\-/]*")
_ASSIGNED = re.compile(r"(?P<key>-{0,2}\+{0,2}[A-Za-z_][\w.\-/]*)=(?P<value>.*)", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")


class Settings:
    """Settings of a submission: the last word on each key, keys in snake case, values as text.

    A flag without value has the text ``true``. ``words`` are all words that are no settings.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.words: list[str] = []

    def add(self, key: str, value: str) -> None:
        """Keep a setting under its whole key and under the last part of a dotted one."""
        name = snake(key)
        self.values[name] = value.strip()
        short = name.rsplit(".", 1)[-1]
        if short != name:
            self.values.setdefault(short, value.strip())


def snake(key: str) -> str:
    """Return a key in snake case, without leading dashes.

    Examples:
        >>> snake("--per-device-train-batch-size")
        'per_device_train_batch_size'
    """
    return key.lstrip("-+").replace("-", "_").lower()


def read_command(text: str) -> Settings:
    """Read a command line or a batch script: ``--key value``, ``--key=value``, ``key=value``, ``--flag``.

    Lines that a backslash continues are joined, comments left out, ``#SBATCH`` lines read too. Shell
    variables that the script itself sets are filled in.
    """
    settings = Settings()
    variables: dict[str, str] = {}
    for line in _lines(text):
        _add_words(settings, _split(_fill(line, variables)), variables)
    return settings


def read_mapping(mapping: Mapping[str, object]) -> Settings:
    """Read a nested configuration or flat parameters; nested keys are joined by dots."""
    settings = Settings()
    for key, value in _flat(mapping, ""):
        settings.add(key, value)
    return settings


def read_json(text: str) -> Settings:
    """Read a JSON configuration, such as one of DeepSpeed; text that is none gives no settings."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return Settings()
    return read_mapping(value) if isinstance(value, dict) else Settings()


def _lines(text: str) -> Iterator[str]:
    for line in re.sub(r"\\\s*\n", " ", text).splitlines():
        bare = line.strip()
        if bare.startswith("#SBATCH"):
            yield bare.removeprefix("#SBATCH")
        elif not bare.startswith("#"):
            yield bare


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # an open quote: people paste parts of lines
        return line.split()


def _fill(line: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[2], match[0])

    return re.sub(r"\$\{(\w+)\}|\$(\w+)", value, line)


def _add_words(settings: Settings, words: list[str], variables: dict[str, str]) -> None:
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        assigned = _ASSIGNED.fullmatch(word)
        if assigned is not None:
            settings.add(assigned["key"], assigned["value"])
            if not word.startswith("-"):
                variables[assigned["key"]] = assigned["value"]
            continue
        if not word.startswith("-") or _NUMBER.fullmatch(word) or not _KEY.fullmatch(word.lstrip("-")):
            settings.words.append(word)
            continue
        if word in ("-m", "-c"):  # python -m PROGRAM
            continue
        values: list[str] = []
        while place < len(words) and (not words[place].startswith("-") or _NUMBER.fullmatch(words[place])):
            if _ASSIGNED.fullmatch(words[place]) or (values and not _continues(words[place])):
                break
            values.append(words[place])
            place += 1
        settings.add(word, " ".join(values) or "true")


def _continues(word: str) -> bool:
    """Whether a second word belongs to the same option: names of modules do, scripts and paths do not."""
    return bool(re.fullmatch(r"[a-z]+(_[a-z]+)+", word))


def _flat(value: object, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list | tuple):
        yield prefix, " ".join(str(item) for item in value)
    elif value is not None:
        yield prefix, str(value)
