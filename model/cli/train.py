"""`dragoman train`: a checkpoint folder from parallel text."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from model.cli.main import Failure
from model.cli.train_options import nested, train_options
from model.training.config_files import load_train_config
from model.training.torchrun import is_among_others

if TYPE_CHECKING:
    from model.training.run import Run
    from model.training.world import World


@click.command(params=train_options())
@click.option(
    "--config",
    "files",
    type=click.Path(path_type=Path),
    multiple=True,
    help="TOML file; later ones win over earlier ones, options over all.",
)
@click.option("--resume", is_flag=True, help="Go on exactly where the run in this folder was.")
def train(files: tuple[Path, ...], resume: bool, **options: object) -> None:
    """Train a checkpoint: corpus → tokenizer → training → checkpoint folder.

    Every value can stand in a TOML file (see examples/) or be given as an option. Paths in a file
    are relative to that file. A run that was stopped or killed continues with --resume. Several
    devices train together where torchrun starts this command, once for each (docs/training.md).
    """
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("model").setLevel(logging.INFO)
    if is_among_others():
        with _among_others() as world:
            _train(files, options, resume=resume, world=world)
    else:
        _train(files, options, resume=resume, world=None)


def _train(
    files: tuple[Path, ...], options: dict[str, object], *, resume: bool, world: "World | None"
) -> None:
    config = load_train_config(files, nested(options))
    from model.training.processor import prepared_processor  # torch: not for --help or a bad value
    from model.training.run import Run
    from model.training.world import ALONE

    world = world or ALONE
    with prepared_processor(config.run.threads):
        run = Run(config, resume=resume, world=world)
        with _first_signal_calls(run.trainer.interrupt, is_silent=not world.is_first):
            reason = run.run()
    step = run.trainer.position.step
    if reason == "interrupted":
        raise Failure(f"interrupted at step {step}, whose state is saved; continue with --resume")
    if world.is_first:
        reached = f"Ended by {reason} at step {step}"
        click.echo(f"{reached}; {_named_results(run)} are in {run.folder.root}")


def _named_results(run: "Run") -> str:
    """What the run has left, in words."""
    results = {
        "checkpoints": True,
        "scores": bool(run.config.validation_corpora),
        "report": run.folder.report.is_dir(),
    }
    *others, last = (name for name, is_there in results.items() if is_there)
    return f"{', '.join(others)} and {last}" if others else last


@contextmanager
def _among_others() -> "Iterator[World]":
    """One of several processes; what ends them all is said by one of them."""
    from model.training.distributed import joined

    with joined() as world:
        if not world.is_first:
            logging.getLogger("model").setLevel(logging.ERROR)
        try:
            yield world
        except Exception as error:
            # torchrun ends whoever is left as soon as one has ended: not before it has been said why.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if world.tells(error):
                raise
            raise click.exceptions.Exit(1) from error


@contextmanager
def _first_signal_calls(interrupt: Callable[[], None], *, is_silent: bool) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into a call; the second one ends the process at once."""

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
