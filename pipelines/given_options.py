"""This module looks at the options of a call: none is ignored silently, and all faults are told at once."""

from collections.abc import Collection, Mapping, Sequence

import typer

from predictor.errors import ArgumentError


def given_options(context: typer.Context) -> Mapping[str, str]:
    """Return the options that the call gave, as parameter: option, in the order of the help."""
    given = {}
    for option in context.command.params:
        source = None if option.name is None else context.get_parameter_source(option.name)
        if option.name is not None and source is not None and source.name == "COMMANDLINE":
            given[option.name] = option.opts[0]
    return given


def ignored_fault(given: Mapping[str, str], names: Collection[str], because: str) -> list[str]:
    """Return one fault that lists all given options of some names, [] = none was given.

    Examples:
        >>> ignored_fault({"tp": "--tp", "seq": "--seq"}, {"seq", "batch"}, "images have no tokens")
        ['--seq: images have no tokens; leave it out']
    """
    options = [option for name, option in given.items() if name in names]
    return [f"{', '.join(options)}: {because}; leave {'it' if len(options) == 1 else 'them'} out"] * bool(
        options
    )


def refuse(faults: Sequence[str]) -> None:
    """Raise an ArgumentError that tells all faults, if there are any."""
    if len(faults) == 1:
        raise ArgumentError(faults[0])
    if faults:
        raise ArgumentError("options cannot be used", faults=faults)
