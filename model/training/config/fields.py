"""Builds configuration classes from plain values, and reads their documentation from docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from model.errors import ConfigError
from model.validators import require

T = TypeVar("T")


def build(cls: type[T], values: object, section: str) -> T:
    """An instance of a configuration class from a table of plain values.

    Raises:
        ConfigError: If a key is unknown or missing, or a value is refused; its field is `section.key`.
    """
    require(isinstance(values, Mapping), section, "a table", values)
    table: dict[str, Any] = dict(values)  # type: ignore[call-overload]
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    for name, value in table.items():
        require(name in fields, f"{section}.{name}", "one of " + ", ".join(fields), value)
        table[name] = _checked(f"{section}.{name}", hints[name], value)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        require(name in table or not required, f"{section}.{name}", "given", None)
    try:
        return cls(**table)
    except ConfigError as error:
        raise ConfigError(f"{section}.{error.field}", error.requirement, error.value) from error


def _checked(name: str, hint: object, value: object) -> object:
    """Refuse a value of another type than the annotation; the classes check ranges themselves."""
    kinds, optional = value_kinds(hint)
    if value is None and optional:
        return value
    if str in kinds:
        require(isinstance(value, str), name, "text", value)
    if int in kinds or float in kinds:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        require(is_number, name, "a number", value)
    if bool in kinds:
        require(isinstance(value, bool), name, "true or false", value)
    if tuple in kinds:
        require(isinstance(value, (list, tuple)), name, "a list", value)
        return tuple(value)  # type: ignore[arg-type]
    return value


def value_kinds(hint: object) -> tuple[set[object], bool]:
    """The types that an annotation allows, without None, and whether it allows None."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds: set[object] = set()
    for option in options:
        if get_origin(option) is Literal:
            kinds |= {type(choice) for choice in get_args(option)}
        else:
            kinds.add(get_origin(option) or option)
    return kinds - {NoneType}, NoneType in kinds


def choices(hint: object) -> tuple[str, ...]:
    """The names that a Literal annotation allows; empty for other annotations."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def field_docs(cls: type) -> dict[str, str]:
    """The text of each field in the "Attributes:" section of the class docstring, on one line."""
    _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}
