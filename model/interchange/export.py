"""ⓕ `dragoman export`: one checkpoint in another framework's format, whole or not at all."""

from pathlib import Path

from model.checkpoint import Checkpoint
from model.checks import require_choice
from model.interchange.exporting import INSTRUCTIONS, preparation, require_package
from model.interchange.formats import QUANTIZATIONS
from model.interchange.instructions import instructions
from model.whole import written_whole


def export_checkpoint(
    checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str = "float32"
) -> None:
    """Write a checkpoint so that another framework runs it; an existing folder is replaced in one step.

    Args:
        checkpoint: What to export.
        folder: Where to.
        export_format: A key of QUANTIZATIONS.
        quantization: One of that format's.

    Raises:
        ConfigError: If the format's package is not installed, or it cannot hold the configuration or
            store such numbers.
        OSError: If the folder cannot be written; what was there is kept.
    """
    require_choice("format", export_format, tuple(QUANTIZATIONS))
    require_choice("quantization", quantization, QUANTIZATIONS[export_format])
    with written_whole(folder) as temporary:
        _write(checkpoint, temporary, export_format, quantization)
        text = instructions(checkpoint, export_format, quantization, preparation(checkpoint))
        (temporary / INSTRUCTIONS).write_text(text, encoding="utf-8")


def _write(checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str) -> None:
    """Import a format's package only where that format is asked for."""
    if export_format == "ctranslate2":
        require_package("ctranslate2", export_format)
        from model.interchange.ctranslate2 import write_ctranslate2

        write_ctranslate2(checkpoint, folder, quantization)
    else:
        require_package("transformers", export_format)
        from model.interchange.hugging_face_folder import write_hugging_face

        write_hugging_face(checkpoint, folder, export_format, quantization)
