"""Types of configuration values, which pydantic checks, and the documentation of the fields."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import ConfigDict, Field, ValidationError

from model.errors import ConfigError
from model.validators import require

T = TypeVar("T")

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""The rules of every configuration class: no value is converted, no unknown field is accepted."""
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Number = float | int
"""A number as the file has it: fingerprints of data tell 2 from 2.0."""
Share = Annotated[Number, Field(ge=0, le=1)]


def build(make: Callable[..., T], values: object, section: str) -> T:
    """An instance of a configuration class from a table of plain values, by their names.

    Raises:
        ConfigError: If a key is unknown or missing, or a value is refused; its field is `section.key`.
    """
    require(isinstance(values, Mapping), section, "a table", values)
    table: dict[str, Any] = dict(values)  # type: ignore[call-overload]
    try:
        return make(**table)
    except ConfigError as error:
        raise ConfigError(f"{section}.{error.field}", error.requirement, error.value) from error
    except ValidationError as error:
        first = error.errors()[0]
        name, value = str(first["loc"][0]), first["input"]
        requirement = first["msg"].removeprefix("Input should be ")
        if first["type"] == "missing":
            requirement, value = "given", None
        elif first["type"] == "unexpected_keyword_argument":
            requirement = "one of " + ", ".join(field.name for field in dataclasses.fields(make))  # type: ignore[arg-type]
        raise ConfigError(f"{section}.{name}", requirement, value) from error


def value_kinds(hint: object) -> set[object]:
    """The types that an annotation allows, without None."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds: set[object] = set()
    for option in options:
        if get_origin(option) is Literal:
            kinds |= {type(choice) for choice in get_args(option)}
        else:
            kinds.add(get_origin(option) or option)
    return kinds - {NoneType}


def choices(hint: object) -> tuple[str, ...]:
    """The names that a Literal annotation allows; empty for other annotations."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def field_docs(cls: type) -> dict[str, str]:
    """The text of each field in the "Attributes:" section of the class docstring, on one line."""
    _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}
