"""ⓕ The formats that can be imported, and recognition of a path's format. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from model.errors import CheckpointError
from model.validators import require_choice


@dataclass(frozen=True)
class Format:
    """A format that can be imported.

    Attributes:
        name: As `--format` takes it.
        title: With its article, for messages.
        module: The Reader (`model.checkpoint.importing.foreign`).
    """

    name: str
    title: str
    module: str

    def recognises(self, path: Path) -> bool:
        """Returns whether a file or folder has this format, by its names and first bytes."""
        return bool(import_module(self.module).recognises(path))


_HERE = "model.checkpoint.importing"
FORMATS: Sequence[Format] = (
    # Each reader adds its line.
    Format("marian", "a Marian model", f"{_HERE}.marian"),
    Format("argos", "an Argos package", f"{_HERE}.argos"),
    Format("ctranslate2", "a CTranslate2 folder", f"{_HERE}.ctranslate2"),
    Format("hugging-face", "a Hugging Face folder", f"{_HERE}.hugging_face"),
    Format("torch", "a state dict of torch.nn.Transformer", f"{_HERE}.torch_transformer"),
)
"""All formats, those that are told apart most easily first."""


def format_named(name: str) -> Format:
    """Returns the format of this name.

    Raises:
        ConfigError: If there is none.
    """
    require_choice("format", name, tuple(each.name for each in FORMATS))
    return next(each for each in FORMATS if each.name == name)


def recognise(path: Path, problems: list[Exception] | None = None) -> Format | None:
    """Returns the format of a file or folder; None if it is of no known format or cannot be read.

    Args:
        path: The file or folder.
        problems: Gets the errors of files that cannot be read.
    """
    for each in FORMATS:
        try:
            if each.recognises(path):
                return each
        except (OSError, ValueError, CheckpointError) as error:
            if problems is not None:
                problems.append(error)
    return None


def import_advice(path: Path) -> str | None:
    """Returns the sentence that tells a user how to convert a foreign model; None if it is not one."""
    found = recognise(path)
    advice = f"convert it with `dragoman import {path} -o FOLDER`"
    return f"{path} is {found.title}: {advice}" if found else None
