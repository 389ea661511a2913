"""`--checkpoint`, `--device`, `--precision` and so on: which checkpoint to load, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from model.cli.grouping import Command, Option, grouped
from model.discovery import checkpoint_folders, good_checkpoint, run_folders
from model.errors import CheckpointError

if TYPE_CHECKING:
    from model.translator import Translator

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
        from model.translator import Translator

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
        from model.checkpoint import record_evaluation

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
    problem = "several checkpoints" if found else "no checkpoint"
    choices = found or [good for run in run_folders(path) if (good := good_checkpoint(run))]
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
