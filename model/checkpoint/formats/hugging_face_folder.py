"""ⓕ The folder of a Hugging Face model: configuration, weights, tokenizer files, generation settings.

The tokenizer is their MarianTokenizer over our SentencePiece models. It asks for a target language by a
first word `>>fr<<`, so our tags take that form in its vocabulary, with their ids.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import GenerationConfig
from transformers.utils import logging

from model.checkpoint.folder import Checkpoint
from model.checkpoint.formats.export import describe, never_produced, source_pieces, target_pieces
from model.checkpoint.formats.hugging_face import hugging_face_model
from model.checkpoint.manifest import write_json


def write_hugging_face(checkpoint: Checkpoint, folder: Path, architecture: str, quantization: str) -> None:
    """Writes a model and a tokenizer that `from_pretrained` loads.

    Args:
        checkpoint: The checkpoint to export.
        folder: An empty folder.
        architecture: `marian` or `pegasus`.
        quantization: `float32`, `float16` or `bfloat16`.

    Raises:
        ConfigError: With the field that the architecture cannot represent.
    """
    card, config = checkpoint.card, checkpoint.config
    longest = max(config.max_positions, card.max_source_length, card.max_target_length)
    model = hugging_face_model(checkpoint.network(), architecture, max_positions=longest + 1)
    model.generation_config = _greedy(checkpoint)
    was_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.to(getattr(torch, quantization)).save_pretrained(folder)
    finally:
        if was_shown:
            logging.enable_progress_bar()
    _write_tokenizer(checkpoint, folder)
    describe(checkpoint, folder, quantization)


def _greedy(checkpoint: Checkpoint) -> GenerationConfig:
    """Returns settings with which `generate` makes our greedy translations; callers may set beams."""
    config = checkpoint.config
    return GenerationConfig(
        max_length=checkpoint.card.max_target_length + 1,  # theirs counts the start token
        num_beams=1,
        do_sample=False,
        pad_token_id=config.pad_id,
        eos_token_id=config.eos_id,
        decoder_start_token_id=config.decoder_start_id,
        suppress_tokens=never_produced(checkpoint),
    )


def _write_tokenizer(checkpoint: Checkpoint, folder: Path) -> None:
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    source_model, target_model = tokenizer.model_files
    shutil.copyfile(checkpoint.folder / source_model, folder / "source.spm")
    shutil.copyfile(checkpoint.folder / target_model, folder / "target.spm")
    pieces = source_pieces(checkpoint)
    for language, id_ in tokenizer.language_tags.items():
        pieces[id_] = f">>{language}<<"
    _write_vocabulary(folder / "vocab.json", pieces)
    if not tokenizer.is_shared:
        _write_vocabulary(folder / "target_vocab.json", target_pieces(checkpoint))
    settings: dict[str, object] = {
        "tokenizer_class": "MarianTokenizer",
        "unk_token": pieces[config.unk_id],
        "eos_token": pieces[config.eos_id],
        "pad_token": pieces[config.pad_id],
        "model_max_length": checkpoint.card.max_source_length,
        "separate_vocabs": not tokenizer.is_shared,
    }
    write_json(folder / "tokenizer_config.json", settings)


def _write_vocabulary(path: Path, pieces: Sequence[str]) -> None:
    write_json(path, {piece: id_ for id_, piece in enumerate(pieces)})
