"""`dragoman train`: every value of the configuration is an option; `dragoman report`: a run as a page."""

import dataclasses
import logging
import signal
import sys
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from model.cli.main import Failure
from model.config import FORMER_FIELDS, TransformerConfig
from model.training.config_sections import choices, field_docs, value_kinds
from model.training.distributed import is_distributed
from model.training.train_config import FROM_THE_TOKENIZER, LISTS, TrainConfig, load_train_config

if TYPE_CHECKING:
    from model.training.distributed.world import World
    from model.training.run import Run

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
"""Option types by annotation; the first that fits is used, so `int | float` reads a float."""


class _TomlValue(ValueType):
    """A value in TOML's syntax, for values that are not scalars."""

    name = "toml"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """Parses the text."""
        try:
            return tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError as error:
            self.fail(f"{value!r} is not a value in TOML's syntax ({error})", param, ctx)


def train_options() -> list[click.Parameter]:
    """Returns an option for every value of the configuration, with its description and default."""
    docs = field_docs(TrainConfig)
    options = [_list_option(name, docs[name]) for name in LISTS]
    for section, cls in get_type_hints(TrainConfig).items():
        if section == "network":
            options.append(_option(section, "preset", str, "small", "A name in model.config.PRESETS."))
            options += _options(section, TransformerConfig, FROM_THE_TOKENIZER, show_defaults=False)
            for name, fields in FORMER_FIELDS.items():
                options.append(_option(section, name, bool, None, f"Former name of {' and '.join(fields)}."))
        elif section not in LISTS:
            options += _options(section, cls)
    return options


def nested(options: Mapping[str, object]) -> dict[str, object]:
    """Returns the options that were given, in the structure of the TOML file."""
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
    kinds = value_kinds(hint)
    return next((kind for annotation, kind in _TYPES.items() if annotation in kinds), _TomlValue())


@click.command()
@click.option(
    "--config",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="TOML file; later files override earlier ones, and options override all.",
)
@click.option("--resume", is_flag=True, help="Continue exactly where the run in this folder stopped.")
@click.option("--prepare", is_flag=True, help="Only make the tokenizer and the token ids; train later.")
def train(files: tuple[Path, ...], resume: bool, prepare: bool, **options: object) -> None:
    r"""Train a checkpoint from parallel text.

    Every value can be set in a TOML file (see examples/) or by an option. Paths in a file are relative to
    that file. A run that was stopped or killed continues with --resume. Several devices train together if
    torchrun starts this command once for each of them (docs/training.md).

    \b
    Examples:
      dragoman train --config examples/tab-separated.toml --run.max-minutes 60
      dragoman train --config examples/tab-separated.toml --run.max-minutes 60 --resume
    """
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("model").setLevel(logging.INFO)
    config = load_train_config(files, nested(options))
    with _world() as world:
        if prepare:
            _prepare(config, world)
        else:
            _train(config, world, resume=resume)


train.params.extend(train_options())  # after the options above, which --help shows first


def _prepare(config: TrainConfig, world: "World") -> None:
    from model.training.run import prepare_run

    data = prepare_run(config, world=world)
    if world.is_first:
        click.echo(f"{len(data.pairs):,} directed pairs are prepared in {config.run.folder}")


def _train(config: TrainConfig, world: "World", *, resume: bool) -> None:
    from model.training.distributed.world import tuned_cpu
    from model.training.run import open_run

    with tuned_cpu(config.run.threads):
        run = open_run(config, resume=resume, world=world)
        with _first_signal_calls(run.trainer.interrupt, is_silent=not world.is_first):
            reason = run.run()
    step = run.trainer.position.step
    if reason == "interrupted":
        raise Failure(f"interrupted at step {step}, whose state is saved; continue with --resume")
    if world.is_first:
        reached = f"Ended by {reason} at step {step}"
        click.echo(f"{reached}; {_named_results(run)} are in {run.folder.root}")


def _named_results(run: "Run") -> str:
    """Returns the names of the results in the run's folder."""
    results = {
        "checkpoints": True,
        "scores": bool(run.config.validation_corpora),
        "report": run.folder.report.is_dir(),
    }
    *others, last = (name for name, is_there in results.items() if is_there)
    return f"{', '.join(others)} and {last}" if others else last


@contextmanager
def _world() -> "Iterator[World]":
    """Joins the other processes, if torchrun started any; one of them reports an error that ends all."""
    if not is_distributed():
        from model.training.distributed.world import SINGLE_PROCESS

        yield SINGLE_PROCESS
        return
    from model.training.distributed.process_group import join_world

    with join_world() as world:
        if not world.is_first:
            logging.getLogger("model").setLevel(logging.ERROR)
        try:
            yield world
        except Exception as error:
            # torchrun ends the other processes as soon as one has ended; one of them may print the error.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if world.should_report(error):
                raise
            raise click.exceptions.Exit(1) from error


@contextmanager
def _first_signal_calls(interrupt: Callable[[], None], *, is_silent: bool) -> Iterator[None]:
    """Calls `interrupt` at the first Ctrl-C or SIGTERM; the second ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        if not is_silent:
            click.echo("\nending after this step and saving; once more ends at once", err=True)
        interrupt()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


@click.command()
@click.argument("run", metavar="RUN_FOLDER", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--attention",
    type=click.IntRange(min=0),
    metavar="N",
    help="Sentences of each direction whose attention is drawn; by default as in the run's configuration.",
)
def report(run: Path, attention: int | None) -> None:
    r"""Write RUN_FOLDER/report/index.html: scores, curves, sentences, attention.

    A run writes its report when it ends. This command writes it again, or writes it for a run that is under
    way, was interrupted or killed, or was trained without the extra `train`.

    \b
    Example:
      dragoman report runs/mine
    """
    from model.training.run_folder.folder import RunFolder

    try:
        from model.training.report.page import write_report

        page = write_report(RunFolder(run), attention=attention)
    except ModuleNotFoundError as missing:
        raise Failure(f"a report needs {missing.name}: pip install --editable '.[train]'") from missing
    click.echo(page)
