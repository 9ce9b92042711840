"""This module tells which options a call gave by itself, so that none of them is ignored silently."""

from collections.abc import Collection, Mapping

import typer


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
