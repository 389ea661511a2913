"""Several options that reach a command as one value."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def grouped(
    command: Command, options: Mapping[str, Option], name: str, pack: Callable[..., object]
) -> Command:
    """Give a command several options, whose values it gets as one argument.

    Args:
        command: A function that click will make a command.
        options: Made by `click.option`, by the name of their value, in order of the help text.
        name: Of the command's argument.
        pack: Called with the options' values by name; what it returns is the argument.
    """

    @functools.wraps(command)
    def packed(**values: object) -> object:
        group = {option: values.pop(option) for option in options}
        return command(**values, **{name: pack(**group)})

    for option in reversed(list(options.values())):
        option(packed)
    return cast(Command, packed)
