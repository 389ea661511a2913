"""ⓕ What every exported folder has: pieces, a description and instructions."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from model.checkpoint import Checkpoint
from model.checkpoint.manifest import write_json
from model.errors import ConfigError
from model.interchange.formats import DESCRIPTION

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
