"""The formats that can be imported, and recognition of a path's format. No torch.

Each format has a module that reads its folders; where the network of a format or its tokenizers need much
code, they have modules of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from model.errors import CheckpointError


@dataclass(frozen=True)
class Format:
    """A format that can be imported.

    Attributes:
        name: As `--format` takes it.
        title: With its article, for messages.
        module: Name of the module in `model.checkpoint.importing.formats` that reads it.
        files: What a user must have of such a model, for messages.
    """

    name: str
    title: str
    module: str
    files: str

    @property
    def reader(self) -> ModuleType:
        """The module that reads the format, a `reader.Reader`."""
        return import_module(f"model.checkpoint.importing.formats.{self.module}")


FORMATS: Sequence[Format] = (
    Format("marian", "a Marian model", "marian_folder", "*.bin or *.npz with *.spm"),
    Format("argos", "an Argos package", "argos", "*.argosmodel"),
    Format("ctranslate2", "a CTranslate2 folder", "ctranslate2_folder", "model.bin with a vocabulary"),
    Format("hugging-face", "a Hugging Face folder", "hugging_face_folder", "config.json with weights"),
    Format(
        "torch",
        "a state dict of torch.nn.Transformer",
        "torch_transformer",
        "*.pt with source.vocabulary.json",
    ),
)
"""All formats, those that are told apart most easily first."""


def recognise(path: Path, problems: list[Exception] | None = None) -> Format | None:
    """Returns the format of a file or folder; None if it is of no known format or cannot be read.

    Args:
        path: The file or folder.
        problems: Gets the errors of files that cannot be read.
    """
    for each in FORMATS:
        try:
            if each.reader.recognises(path):
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
