"""`--section.value` for every value of a training run, made from the configuration classes themselves."""

import dataclasses
import tomllib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from model.config import TransformerConfig
from model.training.config_fields import choices, field_docs, value_kinds
from model.training.train_config import FROM_THE_TOKENIZER, LISTS, TrainConfig

if TYPE_CHECKING:
    ValueType = click.ParamType[Any]
else:
    ValueType = click.ParamType

_SEPARATOR = "__"
_TYPES: Mapping[object, "ValueType"] = {
    bool: click.BOOL,
    float: click.FLOAT,
    int: click.INT,
    str: click.STRING,
}
"""By annotation; the first that fits, so `int | float` reads a float."""


class _TomlValue(ValueType):
    """A value in TOML's syntax, for what has no flat form."""

    name = "toml"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Parse the text."""
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError as error:
            self.fail(f"{value!r} is not a value in TOML's syntax ({error})", param, ctx)


def train_options() -> list[click.Parameter]:
    """An option for every value, with its description and default."""
    docs = field_docs(TrainConfig)
    options = [_list_option(name, docs[name]) for name in LISTS]
    for section, cls in get_type_hints(TrainConfig).items():
        if section == "network":
            options.append(_option(section, "preset", str, "small", "A name of model.presets."))
            options += _options(section, TransformerConfig, FROM_THE_TOKENIZER, show_defaults=False)
        elif section not in LISTS:
            options += _options(section, cls)
    return options


def nested(options: Mapping[str, object]) -> dict[str, object]:
    """Those options that were given, in the shape of the TOML file."""
    values: dict[str, object] = {}
    for option, value in options.items():
        section, separator, name = option.partition(_SEPARATOR)
        if value is not None and separator:
            table = values.setdefault(section, {})
            table[name] = value  # type: ignore[index]
        elif value is not None:
            values[section] = value
    return values


def _list_option(name: str, text: str) -> click.Parameter:
    flag = f"--{name.replace('_', '-')}"
    return click.Option([flag, name], type=_TomlValue(), help=f"{text} A list of tables, in TOML's syntax.")


def _options(
    section: str, cls: type, left_out: Collection[str] = (), *, show_defaults: bool = True
) -> list[click.Parameter]:
    docs, hints = field_docs(cls), get_type_hints(cls)
    return [
        _option(section, f.name, hints[f.name], f.default if show_defaults else None, docs[f.name])
        for f in dataclasses.fields(cls)
        if f.name not in left_out
    ]


def _option(section: str, name: str, hint: object, default: object, text: str) -> click.Parameter:
    flag = f"--{section}.{name.replace('_', '-')}"
    note = "" if default is None else f"  [default: {default}]"
    return click.Option([flag, section + _SEPARATOR + name], type=_value_type(hint), help=text + note)


def _value_type(hint: object) -> "ValueType":
    if names := choices(hint):
        return click.Choice(names)
    kinds, _ = value_kinds(hint)
    return next((kind for annotation, kind in _TYPES.items() if annotation in kinds), _TomlValue())
