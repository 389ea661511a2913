"""ⓕ Folders of Hugging Face's `save_pretrained`: config.json, generation_config.json, weights, tokenizer."""

from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.foreign import ForeignModel, read_object


def recognises(path: Path) -> bool:
    """Returns whether a folder has a config.json with a `model_type`."""
    config = path / "config.json"
    return config.is_file() and isinstance(read_object(config).get("model_type"), str)


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a model; see `model.checkpoint.importing.hugging_face.reader`."""
    from model.checkpoint.importing.hugging_face.reader import read_folder

    return read_folder(path, pair)
