"""ⓕ `dragoman export`: one checkpoint in another framework's format, whole or not at all."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from model.checkpoint.folder import Checkpoint
from model.checkpoint.formats.instructions import instructions
from model.checkpoint.formats.quantizations import DESCRIPTION, QUANTIZATIONS
from model.checkpoint.manifest import write_json
from model.errors import ConfigError
from model.files import atomic_folder
from model.validators import require_choice

INSTRUCTIONS = "README.md"


def require_package(name: str, export_format: str) -> ModuleType:
    """A package that a format cannot do without.

    Raises:
        ConfigError: If it is not installed; names the extra that brings it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        requirement = f"a format whose package is installed ({name}: pip install --editable '.[export]')"
        raise ConfigError("format", requirement, export_format) from None


def source_pieces(checkpoint: Checkpoint) -> list[str]:
    """The source vocabulary, by id."""
    return checkpoint.tokenizer.source_pieces(range(checkpoint.config.source_vocab_size))


def target_pieces(checkpoint: Checkpoint) -> list[str]:
    """The target vocabulary, by id."""
    return checkpoint.tokenizer.pieces(range(checkpoint.config.target_vocab_size))


def never_produced(checkpoint: Checkpoint) -> list[int]:
    """Target ids that no translation holds: padding, BOS, the decoder's start and language tags."""
    return checkpoint.config.never_produced(checkpoint.tokenizer.target_tag_ids)


def describe(checkpoint: Checkpoint, folder: Path, quantization: str) -> None:
    """Write what the folder was made of, as JSON."""
    card = checkpoint.card
    description: Mapping[str, object] = {
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "pairs": [list(pair) for pair in card.pairs],
        "language_tags": dict(checkpoint.tokenizer.settings.tags),
        "max_source_length": card.max_source_length,
        "max_target_length": card.max_target_length,
        "quantization": quantization,
    }
    write_json(folder / DESCRIPTION, description)


def preparation(checkpoint: Checkpoint) -> str:
    """What must be done to a text before SentencePiece sees it, in words."""
    settings = checkpoint.tokenizer.settings
    steps = [
        "Unicode NFC",
        "no control characters",
        "' for ’ between letters",
        "characters that the vocabulary lacks in ones that it has",
    ]
    if settings.lowercase:
        steps.append("lower case")
    if settings.separate_punctuation:
        steps.append("a space before each of `, . ! ?` that has none")
    return ", ".join(steps)


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
    with atomic_folder(folder) as temporary:
        _write(checkpoint, temporary, export_format, quantization)
        text = instructions(checkpoint, export_format, quantization, preparation(checkpoint))
        (temporary / INSTRUCTIONS).write_text(text, encoding="utf-8")


def _write(checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str) -> None:
    """Import a format's package only where that format is asked for."""
    if export_format == "ctranslate2":
        require_package("ctranslate2", export_format)
        from model.checkpoint.formats.ctranslate2 import write_ctranslate2

        write_ctranslate2(checkpoint, folder, quantization)
    else:
        require_package("transformers", export_format)
        from model.checkpoint.formats.hugging_face_folder import write_hugging_face

        write_hugging_face(checkpoint, folder, export_format, quantization)
