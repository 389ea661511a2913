"""`dragoman train`: a checkpoint folder from parallel text."""

import dataclasses
import logging
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, get_type_hints

import click

from model.config import TransformerConfig
from model.errors import TranslationError
from model.training.config_fields import choices, field_docs, value_kinds
from model.training.train_config import FROM_THE_TOKENIZER, LISTS, TrainConfig, load_train_config

_KIND_TYPES: Mapping[object, click.ParamType] = {
    bool: click.BOOL,
    int: click.INT,
    float: click.FLOAT,
    str: click.STRING,
}


class _TomlValue(click.ParamType):
    """A value in TOML's syntax, for what has no flat form."""

    name = "toml"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Parse the text."""
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError as error:
            self.fail(f"{value!r} is not a TOML value ({error})", param, ctx)


def _section_options() -> list[click.Option]:
    """`--section.field` for every value of every section."""
    options = [
        click.Option([f"--{name.replace('_', '-')}", name], type=_TomlValue(), help=f"{text} A TOML list of tables.")
        for name, text in field_docs(TrainConfig).items()
        if name in LISTS
    ]
    for section, hint in get_type_hints(TrainConfig).items():
        if section == "network":
            options.append(_option(section, "preset", str, "small", "A name of model.presets."))
            options += _options_of(section, TransformerConfig, FROM_THE_TOKENIZER)
        elif section not in LISTS:
            options += _options_of(section, hint, ())
    return options


def _options_of(section: str, cls: type, left_out: tuple[str, ...]) -> list[click.Option]:
    docs, hints = field_docs(cls), get_type_hints(cls)
    fields = [field for field in dataclasses.fields(cls) if field.name not in left_out]
    shown: Callable[[Any], object] = lambda field: None if section == "network" else field.default  # noqa: E731
    return [_option(section, f.name, hints[f.name], shown(f), docs.get(f.name, "")) for f in fields]


def _option(section: str, name: str, hint: object, default: object, text: str) -> click.Option:
    kinds, _ = value_kinds(hint)
    kind: click.ParamType = _TomlValue() if tuple in kinds else _KIND_TYPES[_widest(kinds)]
    if names := choices(hint):
        kind = click.Choice(names)
    note = "" if default is None else f"  [default: {default}]"
    flag = f"--{section}.{name.replace('_', '-')}"
    return click.Option([flag, f"{section}__{name}"], type=kind, help=text + note)


def _widest(kinds: set[object]) -> object:
    return next(kind for kind in (bool, float, int, str) if kind in kinds)


def _nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that were given, in the shape of the TOML file."""
    nested: dict[str, Any] = {}
    for name, value in options.items():
        if value is None:
            continue
        section, dot, key = name.partition("__")
        if dot:
            nested.setdefault(section, {})[key] = value
        else:
            nested[section] = value
    return nested


@click.command(params=_section_options())
@click.option("--config", type=click.Path(path_type=Path), help="TOML file; options win over it.")
@click.option("--resume", is_flag=True, help="Go on exactly where the run in this folder was.")
def train(config: Path | None, resume: bool, **options: Any) -> None:
    """Train a checkpoint: corpus → tokenizer → training → checkpoint folder.

    Every value can stand in the TOML file (see examples/) or be given as an option. Paths in the
    file are relative to the file.
    """
    _show_progress()
    try:
        merged = load_train_config(config, _nested(options))
        from model.training.run import Run  # torch takes seconds to load: not for --help or a bad value

        run = Run(merged, resume=resume)
        with _graceful(run.trainer.interrupt):
            reason = run.run()
    except TranslationError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    click.echo(f"Ended by {reason} at step {run.trainer.position.step}; see {run.folder.root}")
    if reason == "interrupted":
        click.echo("Continue with --resume.", err=True)
        sys.exit(1)


def _show_progress() -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO, stream=sys.stderr)


class _graceful:  # noqa: N801 — reads as a statement
    """Turns the first Ctrl-C or SIGTERM into a call; the second one kills."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, self._previous[number])
        click.echo("\nending after this step and saving; once more ends at once", err=True)
        self._interrupt()
