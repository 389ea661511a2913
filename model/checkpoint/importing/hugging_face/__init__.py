"""ⓕ Folders of Hugging Face's `save_pretrained`: config.json, generation_config.json, weights, tokenizer."""

from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.foreign import ForeignModel, read_object, refusal

FAMILIES: dict[str, str] = {}
"""Module of each family by `model_type`."""


def recognises(path: Path) -> bool:
    """Returns whether a folder has a config.json with a `model_type`."""
    return path.is_dir() and isinstance(read_object(path / "config.json").get("model_type"), str)


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a model of one of FAMILIES.

    Raises:
        CheckpointError: If the model is broken or cannot be computed; the message names file and field.
    """
    family = read_object(path / "config.json").get("model_type")
    raise refusal(path / "config.json", "model_type", f"one of {', '.join(FAMILIES)}", family)
