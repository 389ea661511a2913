"""ⓕ `dragoman export`: writes a checkpoint in the format of another framework, in one step."""

from importlib import import_module
from pathlib import Path

from model.checkpoint.exporting import QUANTIZATIONS
from model.checkpoint.exporting.description import describe
from model.checkpoint.folder import Checkpoint
from model.errors import ConfigError
from model.files import atomic_folder
from model.validators import require_choice


def export_checkpoint(
    checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str = "float32"
) -> None:
    """Writes a checkpoint in the format of another framework.

    Args:
        checkpoint: The checkpoint to export.
        folder: Folder to write; an existing one is replaced in one step.
        export_format: A key of QUANTIZATIONS.
        quantization: One of the format's number types.

    Raises:
        ConfigError: If the format's package is not installed, or the format cannot represent the
            configuration or the number type.
        OSError: If the folder cannot be written; it is unchanged then.
    """
    require_choice("format", export_format, tuple(QUANTIZATIONS))
    require_choice("quantization", quantization, QUANTIZATIONS[export_format])
    with atomic_folder(folder) as temporary:
        _write(checkpoint, temporary, export_format, quantization)
        describe(checkpoint, temporary, export_format, quantization)


def _write(checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str) -> None:
    """Writes the model and its tokenizer by a module that needs the format's package."""
    if export_format == "ctranslate2":
        _require_package("ctranslate2", export_format)
        from model.checkpoint.exporting.ctranslate2 import write_ctranslate2

        write_ctranslate2(checkpoint, folder, quantization)
    else:
        _require_package("transformers", export_format)
        from model.checkpoint.exporting.hugging_face import write_hugging_face

        write_hugging_face(checkpoint, folder, export_format, quantization)


def _require_package(name: str, export_format: str) -> None:
    """Refuses a format whose package is not installed; the message names the extra that brings it."""
    try:
        import_module(name)
    except ModuleNotFoundError:
        requirement = f"a format whose package is installed ({name}: pip install --editable '.[export]')"
        raise ConfigError("format", requirement, export_format) from None
