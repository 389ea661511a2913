"""Options that several commands share: checkpoint, device, languages, decoding, output folder, progress."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from tqdm import tqdm

from model.checkpoint.card import ModelCard, Pair
from model.checkpoint.formats.quantizations import DESCRIPTION
from model.checkpoint.paths import CONFIG, checkpoint_folders, good_checkpoint, run_folders
from model.cli.main import Misuse
from model.errors import CheckpointError

if TYPE_CHECKING:
    from model.translation.translator import Translator

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


_OPTIONS: Mapping[str, tuple[type, str]] = {
    "strategy": (str, "greedy, beam or sample."),
    "beam_size": (int, "Hypotheses kept alive; asks for beam search where no --strategy is given."),
    "length_penalty": (float, "Above 0 favours longer translations."),
    "patience": (
        float,
        "Search ends when patience × beam size are finished and none is ahead of them.",
    ),
    "temperature": (float, "Sampling: above 1 is more varied."),
    "top_k": (int, "Sampling: among the k likeliest tokens; 0 is no limit."),
    "top_p": (float, "Sampling: among the likeliest tokens that hold this probability."),
    "min_p": (float, "Sampling: drop what is less likely than this share of the likeliest."),
    "seed": (int, "Sampling: the same seed gives the same translation."),
    "max_length": (int, "Most tokens of a translated sentence."),
    "min_length": (int, "Fewest tokens of a translated sentence."),
    "no_repeat_ngram_size": (int, "No sequence of so many tokens appears twice."),
    "repetition_penalty": (float, "Above 1 makes repeated tokens less likely."),
}


def decoding_options(command: Command) -> Command:
    """The values that were given, as `decoding`: by their name in DecodeOptions."""
    options = {
        name: click.option(f"--{name.replace('_', '-')}", type=kind, help=text)
        for name, (kind, text) in _OPTIONS.items()
    }
    return grouped(command, options, "decoding", _given)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Languages:
    """What the user said; None (or `auto` for the source) leaves it open."""

    source: str | None
    target: str | None

    def resolve(self, card: ModelCard, sample: str) -> Pair:
        """The direction that is meant.

        Args:
            card: Of the checkpoint.
            sample: Some of the text, to detect its language where several are possible.

        Raises:
            UnsupportedLanguageError: If the checkpoint does not translate the direction.
            UsageError: If the target is left open and there are several.
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
        from model.text.languages import LanguageDetector, usable_language

        ranked = LanguageDetector(card.languages).detect(sample)
        return usable_language(ranked, lambda code: code == target or code in possible).language


def named_languages(card: ModelCard, name: str) -> Pair:
    """The two languages of a `--corpus SOURCE-TARGET FILE`.

    Raises:
        Misuse: If the checkpoint translates between no two that are named so.
    """
    pair = card.languages_named(name)
    if pair is None:
        translated = ", ".join("-".join(each) for each in card.pairs)
        raise Misuse(f"--corpus must name languages of {translated}, but names {name} instead")
    return pair


def are_exchanged(samples: tuple[str, str], languages: Pair) -> bool:
    """Whether two columns of text are plainly in each other's language."""
    from model.text.languages import LanguageDetector

    detector = LanguageDetector(languages)
    guesses = [detector.detect(sample)[0] for sample in samples]
    return all(
        guess.language == other and guess.confidence > 0.9
        for guess, other in zip(guesses, reversed(languages), strict=True)
    )


def language_options(command: Command) -> Command:
    """`--source`, `--target`, as `languages`."""
    helps = {
        "source": "Source language; detected in the first lines where there is a choice, or for auto.",
        "target": "Target language; needed only where there is a choice.",
    }
    options = {
        name: click.option(f"-{name[0]}", f"--{name}", metavar="CODE", help=text)
        for name, text in helps.items()
    }
    return grouped(command, options, "languages", Languages)


output_folder = click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder to write: a new or an empty one, or a checkpoint or an export to replace; not the input.",
)


def require_replaceable(output: Path, inputs: Iterable[Path]) -> None:
    """Let nothing be lost but what is meant to be replaced.

    Args:
        output: Where a command is going to put a whole folder.
        inputs: What the command reads.

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
    """Whether it is a checkpoint, sound or not, or an export."""
    if (folder / DESCRIPTION).is_file():
        return True
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "format_version" in config


def progress_bar(
    unit: str, *, total: int | None = None, done: int = 0, wanted: bool | None = None
) -> "tqdm[None]":
    """A bar, or what stands for one and shows nothing.

    Args:
        unit: What is counted, in the plural.
        total: How many there are, if that is known.
        done: So many are done already.
        wanted: Whether to show it; None does where standard error is a terminal.
    """
    # There is none where whoever started the process has closed it.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    shown = is_terminal if wanted is None else wanted and sys.stderr is not None
    return tqdm(unit=f" {unit}", total=total, initial=done, disable=not shown, file=sys.stderr)


DEFAULT_CHECKPOINT = Path("checkpoints")


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


device_option = _choice("device", "auto|cpu|cuda", "Where to run.")
precision_option = _choice("precision", "auto|float32|bfloat16|float16|int8", "What to compute in.")


@dataclass(frozen=True)
class Setup:
    """What the options say."""

    checkpoint: Path
    device: str
    precision: str
    shortlist: bool = False
    retry_degenerate: bool = True

    def load(self) -> "Translator":
        """Load the checkpoint, and only now what computes it.

        Raises:
            CheckpointError: If there is no checkpoint, more than one, or it is not sound.
            ConfigError: If the device or the precision cannot be had; or if it has no shortlist, and one is
                asked for.
        """
        from model.translation.translator import Translator

        return Translator.load(
            only_checkpoint(self.checkpoint),
            device=self.device,
            precision=self.precision,
            shortlist=self.shortlist,
            retries=self.retry_degenerate,
        )

    def record(self, name: str, evaluation: Mapping[str, object]) -> None:
        """Keep scores in the checkpoint's provenance, under this name.

        Raises:
            CheckpointError: If they cannot be written.
        """
        from model.checkpoint.manifest import record_evaluation

        record_evaluation(only_checkpoint(self.checkpoint), name, evaluation)


def only_checkpoint(path: Path) -> Path:
    """The checkpoint folder a path stands for: itself, or the only one in it.

    Raises:
        CheckpointError: If there is none, or a choice.
    """
    if "," in str(path) and not path.exists():  # as `dragoman serve` takes them
        named = ", ".join(part.strip() for part in str(path).split(","))
        raise CheckpointError(f"one checkpoint is needed, not several: name one of {named}")
    found = checkpoint_folders(path)
    if len(found) == 1:
        return found[0]
    runs = run_folders(path)
    if not found and not runs:
        raise CheckpointError(f"{path} holds no checkpoint: {CONFIG} is missing")
    problem = "several checkpoints" if found else "no checkpoint"
    choices = found or [good for run in runs if (good := good_checkpoint(run))]
    advice = f": name one of {', '.join(map(str, choices))}" if choices else ""
    raise CheckpointError(f"{path} holds {problem}{advice}")


def setup_options(command: Command) -> Command:
    """`--checkpoint`, `--device`, `--precision`, `--shortlist`, `--retry-degenerate`, as `setup`."""
    options: dict[str, Option] = {
        "checkpoint": click.option(
            "--checkpoint",
            type=click.Path(path_type=Path),
            default=DEFAULT_CHECKPOINT,
            show_default=True,
            envvar="DRAGOMAN_CHECKPOINT",
            show_envvar=True,
            help="Checkpoint folder, or a folder that holds just one.",
        ),
        "device": device_option,
        "precision": precision_option,
        "shortlist": click.option(
            "--shortlist/--no-shortlist",
            envvar="DRAGOMAN_SHORTLIST",
            show_envvar=True,
            help="Choose only among the checkpoint's likely translations of the source's tokens: faster.",
        ),
        "retry_degenerate": click.option(
            "--retry-degenerate/--no-retry-degenerate",
            default=True,
            show_default=True,
            envvar="DRAGOMAN_RETRY_DEGENERATE",
            show_envvar=True,
            help="Translate a second time what looks broken, where no option says how to search.",
        ),
    }
    return grouped(command, options, "setup", Setup)
