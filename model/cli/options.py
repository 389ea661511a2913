"""Options that commands share: checkpoint, device, languages, decoding, output folder, progress."""

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from tqdm import tqdm

from model.checkpoint.card import ModelCard, Pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.formats import import_advice
from model.checkpoint.manifest import CONFIG, checkpoint_folders, config_values, good_checkpoint, run_folders
from model.cli.main import Misuse
from model.errors import CheckpointError

if TYPE_CHECKING:
    from model.translation.translator import Translator

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Callable[..., Any]], Callable[..., Any]]

_OPTIONS: Mapping[str, tuple[type, str]] = {
    "strategy": (str, "greedy, beam or sample."),
    "beam_size": (int, "Hypotheses that beam search keeps; implies beam search without --strategy."),
    "length_penalty": (float, "Above 0 favours longer translations."),
    "patience": (
        float,
        "The search ends when patience × beam size hypotheses are finished and none is better.",
    ),
    "temperature": (float, "Sampling: above 1 is more varied."),
    "top_k": (int, "Sampling: among the k likeliest tokens; 0 is no limit."),
    "top_p": (float, "Sampling: among the likeliest tokens that together have this probability."),
    "min_p": (float, "Sampling: drop tokens less likely than this share of the likeliest."),
    "seed": (int, "Sampling: the same seed gives the same translation."),
    "max_length": (int, "Most tokens of a translated sentence."),
    "min_length": (int, "Fewest tokens of a translated sentence."),
    "no_repeat_ngram_size": (int, "No sequence of so many tokens occurs twice."),
    "repetition_penalty": (float, "Above 1 makes repeated tokens less likely."),
}
DEFAULT_CHECKPOINT = Path("checkpoints")


def only_checkpoint(path: Path | str) -> Path:
    """Returns the checkpoint folder of a path: the path itself, or the only checkpoint in it.

    Raises:
        CheckpointError: If there is none, or more than one.
    """
    path = Path(path)
    if "," in str(path) and not path.exists():  # the form that `dragoman serve` accepts
        named = ", ".join(part.strip() for part in str(path).split(","))
        raise CheckpointError(f"one checkpoint is needed, not several: name one of {named}")
    found = checkpoint_folders(path)
    if len(found) == 1:
        return found[0]
    runs = run_folders(path)
    if not found and not runs:
        raise CheckpointError(import_advice(path) or f"{path} holds no checkpoint: {CONFIG} is missing")
    problem = "several checkpoints" if found else "no checkpoint"
    choices = found or [good for run in runs if (good := good_checkpoint(run))]
    advice = f": name one of {', '.join(map(str, choices))}" if choices else ""
    raise CheckpointError(f"{path} holds {problem}{advice}")


checkpoint_argument = click.argument("checkpoint", type=only_checkpoint)
output_folder = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write: new or empty, or a checkpoint or an export to replace; not the input.",
)
storage_option = click.option(
    "--storage",
    type=click.Choice(["float32", "bfloat16", "float16", "int8"]),
    help="Number type to store weights in; as before if omitted. int8 has a scale for each row of a matrix.",
)


def grouped(
    command: Command, options: Mapping[str, Option], name: str, pack: Callable[..., object]
) -> Command:
    """Gives a command several options whose values it receives as one argument.

    Args:
        command: A function that click turns into a command.
        options: Options made by `click.option`, by the name of their value, in the order of the help text.
        name: Name of the command's argument.
        pack: Called with the options' values by name; returns the argument.
    """

    @functools.wraps(command)
    def packed(**values: object) -> object:
        group = {option: values.pop(option) for option in options}
        return command(**values, **{name: pack(**group)})

    for option in reversed(list(options.values())):
        option(packed)
    return cast(Command, packed)


def decoding_options(command: Command) -> Command:
    """Gives a command the decoding options; it gets those that were given as `decoding`, by name."""
    options = {
        name: click.option(f"--{name.replace('_', '-')}", type=kind, help=text)
        for name, (kind, text) in _OPTIONS.items()
    }
    return grouped(command, options, "decoding", _given)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Languages:
    """The languages that were given; None, or `auto` for the source, leaves the choice open."""

    source: str | None
    target: str | None

    def resolve(self, card: ModelCard, sample: str) -> Pair:
        """Returns the direction to translate.

        Args:
            card: The checkpoint's card.
            sample: A part of the text, to detect its language if several are possible.

        Raises:
            UnsupportedLanguageError: If the checkpoint does not translate the direction.
            UsageError: If no target was given and several are possible.
        """
        from model.translation.document_translation import resolve_code, resolve_pair

        source = self._source(card, sample)
        if self.target is not None:
            return resolve_pair(card, source, self.target)
        targets = card.targets(resolve_code(card, source))
        if len(targets) > 1:
            raise click.UsageError(f"--target is needed: one of {', '.join(targets)}")
        return resolve_pair(card, source, next(iter(targets), source))

    def _source(self, card: ModelCard, sample: str) -> str:
        if self.source is not None and self.source != "auto":
            return self.source
        from model.translation.document_translation import resolve_code

        target = None if self.target is None else resolve_code(card, self.target)
        possible = [code for code in card.sources if target is None or target in card.targets(code)]
        if self.source is None and len(possible) == 1:
            return possible[0]
        from model.text.detection import LanguageDetector, usable_language

        ranked = LanguageDetector(card.languages).detect(sample)
        return usable_language(ranked, lambda code: code == target or code in possible).language


def named_languages(card: ModelCard, name: str) -> Pair:
    """Returns the two languages of `--corpus SOURCE-TARGET FILE`.

    Raises:
        Misuse: If the checkpoint does not translate between them.
    """
    pair = card.languages_named(name)
    if pair is None:
        translated = ", ".join("-".join(each) for each in card.pairs)
        raise Misuse(f"--corpus must name languages of {translated}, but names {name} instead")
    return pair


def language_options(command: Command) -> Command:
    """Gives a command `--source` and `--target`; it gets them as `languages`."""
    helps = {
        "source": "Source language; if omitted or auto, detected in the first lines.",
        "target": "Target language; needed only if there is a choice.",
    }
    options = {
        name: click.option(f"-{name[0]}", f"--{name}", metavar="CODE", help=text)
        for name, text in helps.items()
    }
    return grouped(command, options, "languages", Languages)


def require_replaceable(output: Path, inputs: Iterable[Path]) -> None:
    """Refuses an output folder whose replacement would lose other files.

    Args:
        output: The folder that the command will write.
        inputs: The folders that the command reads.

    Raises:
        Misuse: If the folder is or holds an input or the working directory, or holds files and is neither a
            checkpoint nor an export.
    """
    place = output.resolve()
    for kept, name in [*((each, str(each)) for each in inputs), (Path.cwd(), "the working directory")]:
        if kept.resolve().is_relative_to(place):
            raise Misuse(f"--output must be another folder than {name}, and not around it, but is {output}")
    if output.is_dir() and any(output.iterdir()) and not _is_ours(output):
        allowed = "a new or an empty folder, a checkpoint or an export"
        raise Misuse(f"--output must be {allowed}, but {output} holds other files")


def _is_ours(folder: Path) -> bool:
    """Returns whether a folder is a checkpoint, even a broken one, or an export."""
    return (folder / DESCRIPTION).is_file() or "format_version" in config_values(folder)


def progress_bar(unit: str, *, total: int | None = None, wanted: bool | None = None) -> "tqdm[None]":
    """Returns a progress bar, which may be hidden.

    Args:
        unit: The unit, in the plural.
        total: The total number, if known.
        wanted: Whether to show the bar; None shows it if standard error is a terminal.
    """
    # Standard error is None if the parent process closed it.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    shown = is_terminal if wanted is None else wanted and sys.stderr is not None
    return tqdm(unit=f" {unit}", total=total, disable=not shown, file=sys.stderr)


def _choice(name: str, values: str, text: str) -> Option:
    return click.option(
        f"--{name}",
        default="auto",
        show_default=True,
        envvar=f"DRAGOMAN_{name.upper()}",
        show_envvar=True,
        metavar=values,
        help=text,
    )


device_option = _choice("device", "auto|cpu|cuda|cuda:N", "Device to run on.")
precision_option = _choice("precision", "auto|float32|bfloat16|float16|int8", "Number type to compute in.")


class _AutoOrFlag(click.types.BoolParamType):
    """A flag that the environment may also leave to the checkpoint, with `auto`."""

    def convert(  # type: ignore[override]
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> bool | None:
        """Returns None for `auto`."""
        return None if value == "auto" else super().convert(value, param, ctx)


@dataclass(frozen=True)
class Setup:
    """The checkpoint, and how to load it."""

    checkpoint: Path
    device: str
    precision: str
    shortlist: bool | None = None
    retry_degenerate: bool = True

    def load(self) -> "Translator":
        """Loads the checkpoint; imports the packages that compute only now.

        Raises:
            CheckpointError: If there is no checkpoint, or more than one, or it is broken.
            ConfigError: If the device or the precision is not available, or the checkpoint lacks a shortlist
                that was requested.
        """
        from model.translation.translator import Translator

        return Translator.load(only_checkpoint(self.checkpoint), **self.loading)  # type: ignore[arg-type]

    @property
    def loading(self) -> dict[str, object]:
        """The further arguments of `Translator.load`."""
        return {
            "device": self.device,
            "precision": self.precision,
            "shortlist": self.shortlist,
            "retries": self.retry_degenerate,
        }


def setup_options(command: Command) -> Command:
    """Gives a command the options of a checkpoint and its device; it gets them as `setup`."""
    options: dict[str, Option] = {
        "checkpoint": click.option(
            "--checkpoint",
            type=click.Path(path_type=Path),
            default=DEFAULT_CHECKPOINT,
            show_default=True,
            envvar="DRAGOMAN_CHECKPOINT",
            show_envvar=True,
            help="Checkpoint folder, or a folder that holds one.",
        ),
        "device": device_option,
        "precision": precision_option,
        "shortlist": click.option(
            "--shortlist/--no-shortlist",
            default=None,
            type=_AutoOrFlag(),
            envvar="DRAGOMAN_SHORTLIST",
            show_envvar=True,
            help="Use only the checkpoint's likely translations of the source's tokens, which is faster. "
            "Used in int8 if omitted and the checkpoint was imported with a shortlist.",
        ),
        "retry_degenerate": click.option(
            "--retry-degenerate/--no-retry-degenerate",
            default=True,
            show_default=True,
            envvar="DRAGOMAN_RETRY_DEGENERATE",
            show_envvar=True,
            help="Translate sentences again whose translation looks broken, if no option sets the search.",
        ),
    }
    return grouped(command, options, "setup", Setup)
