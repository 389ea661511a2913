"""ⓕ `dragoman export`: writes a checkpoint in the format of another framework, in one step."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from model.checkpoint.folder import Checkpoint
from model.checkpoint.formats import DESCRIPTION, QUANTIZATIONS
from model.checkpoint.formats.instructions import instructions
from model.checkpoint.manifest import write_json
from model.errors import ConfigError
from model.files import atomic_folder
from model.validators import require_choice

INSTRUCTIONS = "README.md"


def require_package(name: str, export_format: str) -> ModuleType:
    """Imports a package that a format needs.

    Raises:
        ConfigError: If the package is not installed; the message names the extra to install.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError:
        requirement = f"a format whose package is installed ({name}: pip install --editable '.[export]')"
        raise ConfigError("format", requirement, export_format) from None


def source_pieces(checkpoint: Checkpoint) -> list[str]:
    """Returns the source vocabulary, by id."""
    return checkpoint.tokenizer.source_pieces(range(checkpoint.config.source_vocab_size))


def target_pieces(checkpoint: Checkpoint) -> list[str]:
    """Returns the target vocabulary, by id."""
    return checkpoint.tokenizer.pieces(range(checkpoint.config.target_vocab_size))


def never_produced(checkpoint: Checkpoint) -> list[int]:
    """Returns the target ids that no translation holds: padding, BOS, decoder start, language tags."""
    return checkpoint.config.never_produced(checkpoint.tokenizer.target_tag_ids)


def describe(checkpoint: Checkpoint, folder: Path, quantization: str) -> None:
    """Writes a description of the checkpoint into the folder, as JSON."""
    card = checkpoint.card
    description: Mapping[str, object] = {
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "pairs": [list(pair) for pair in card.pairs],
        "language_tags": dict(checkpoint.tokenizer.settings.tags),
        "lowercase": checkpoint.tokenizer.settings.lowercase,
        "separate_punctuation": checkpoint.tokenizer.settings.separate_punctuation,
        "prepare": checkpoint.tokenizer.settings.prepare,
        "max_source_length": card.max_source_length,
        "max_target_length": card.max_target_length,
        "quantization": quantization,
    }
    write_json(folder / DESCRIPTION, description)


def preparation(checkpoint: Checkpoint) -> str:
    """Describes how a text must be prepared for SentencePiece."""
    settings = checkpoint.tokenizer.settings
    if settings.is_foreign:
        return "no control characters"
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
    """Writes a checkpoint in the format of another framework.

    Args:
        checkpoint: The checkpoint to export.
        folder: Folder to write; an existing one is replaced in one step.
        export_format: A key of QUANTIZATIONS.
        quantization: One of the format's number types.

    Raises:
        ConfigError: If the format's package is not installed, or the format cannot represent the
        configuration or
            the number type.
        OSError: If the folder cannot be written; it is unchanged then.
    """
    require_choice("format", export_format, tuple(QUANTIZATIONS))
    require_choice("quantization", quantization, QUANTIZATIONS[export_format])
    with atomic_folder(folder) as temporary:
        _write(checkpoint, temporary, export_format, quantization)
        text = instructions(checkpoint, export_format, quantization, preparation(checkpoint))
        (temporary / INSTRUCTIONS).write_text(text, encoding="utf-8")


def _write(checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str) -> None:
    """Imports the format's package and writes the folder."""
    if export_format == "ctranslate2":
        require_package("ctranslate2", export_format)
        from model.checkpoint.formats.ctranslate2 import write_ctranslate2

        write_ctranslate2(checkpoint, folder, quantization)
    else:
        require_package("transformers", export_format)
        from model.checkpoint.formats.hugging_face import write_hugging_face

        write_hugging_face(checkpoint, folder, export_format, quantization)
