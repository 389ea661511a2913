"""`--against`, `--confidence` and so on: what else is to be known than the scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from model.cli.options import Command, grouped


@dataclass(frozen=True)
class Comparing:
    """What the options say about certainty and other systems."""

    translations_file: Path | None
    against: Path | None
    against_file: Path | None
    confidence: bool
    resamples: int

    @property
    def files(self) -> Sequence[Path]:
        """What is read of translations that are there already."""
        return [file for file in (self.translations_file, self.against_file) if file is not None]

    @property
    def needs_sources(self) -> bool:
        """Whether a checkpoint is to translate something."""
        return self.translations_file is None or self.against is not None

    def check(self, *, both: bool, output: Path | None, record: str | None) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: Naming the options.
            ConfigError: If there is something to draw, and the seed is none.
        """
        if self.against is not None and self.against_file is not None:
            raise click.UsageError("--against and --against-file: compare with one of them")
        if both and (self.translations_file or self.against_file or output):
            raise click.UsageError("--both translates two directions, and a file of translations holds one")
        if self.translations_file and (output or record):
            raise click.UsageError(
                "--translations-file: nothing is translated, leave out --output and --record"
            )
        if self.confidence or self.against or self.against_file:
            from model.evaluation.significance import check_seed

            check_seed()


def comparing_options(command: Command) -> Command:
    """The options, as `comparing`."""
    path = click.Path(path_type=Path)
    options = {
        "translations_file": click.option(
            "--translations-file",
            type=path,
            metavar="F",
            help="Score these translations, with no checkpoint.",
        ),
        "against": click.option(
            "--against",
            type=path,
            metavar="CHECKPOINT",
            help="Compare with this checkpoint on the same text.",
        ),
        "against_file": click.option(
            "--against-file", type=path, metavar="F", help="Compare with these translations, one a line."
        ),
        "confidence": click.option(
            "--confidence",
            is_flag=True,
            help="Show 95 % intervals, by bootstrap resampling; implied by --against.",
        ),
        "resamples": click.option(
            "--resamples",
            type=click.IntRange(min=40),
            default=1000,
            show_default=True,
            help="How many texts the bootstrap draws; SACREBLEU_SEED seeds it.",
        ),
    }
    return grouped(command, options, "comparing", Comparing)
