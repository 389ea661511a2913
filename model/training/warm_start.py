"""Initial weights from a checkpoint, for training on other data, languages or vocabularies."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint.folder import load_checkpoint
from model.config import ONLY_FOR_TRAINING, TransformerConfig
from model.errors import ConfigError
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.config.train_config import FROM_THE_TOKENIZER, NetworkConfig

_MAY_DIFFER = {*FROM_THE_TOKENIZER, *ONLY_FOR_TRAINING, "vocab_multiple"}
_SOURCE_ROWS = ("source_embedding.tokens.weight",)
_TARGET_ROWS = ("target_embedding.tokens.weight", "output.weight", "output.bias")


def require_start(folder: Path, network: NetworkConfig) -> None:
    """Refuse a checkpoint that a network cannot start from; needs no vocabulary.

    Raises:
        CheckpointError: If the folder holds no sound checkpoint.
        ConfigError: If the networks differ in more than dropout and vocabulary.
    """
    shape = network.transformer(source_vocab_size=64, target_vocab_size=64)
    _require_same_shape(load_checkpoint(folder).config, shape)


@torch.no_grad()
def start_from(folder: Path, network: Transformer, tokenizer: Tokenizer) -> int:
    """Copy a checkpoint's weights into a network of the same shape; the vocabularies may differ.

    The embedding rows of pieces that both vocabularies have are copied; other rows keep their initial values.

    Args:
        folder: Folder of a checkpoint.
        network: Initialised network; written in place.
        tokenizer: Tokenizer of the network.

    Returns:
        The number of target pieces that both vocabularies have.

    Raises:
        CheckpointError: If the folder holds no sound checkpoint.
        ConfigError: If the networks differ in more than dropout and vocabulary.
    """
    checkpoint = load_checkpoint(folder)
    _require_same_shape(checkpoint.config, network.config)
    source_rows = _common_rows(_source_pieces(checkpoint.tokenizer), _source_pieces(tokenizer))
    target_rows = _common_rows(_target_pieces(checkpoint.tokenizer), _target_pieces(tokenizer))
    known = dict(checkpoint.network().named_parameters())
    for name, parameter in network.named_parameters():
        if name in _SOURCE_ROWS:
            _copy_rows(known[name], parameter, source_rows)
        elif name in _TARGET_ROWS:
            _copy_rows(known[name], parameter, target_rows)
        else:
            parameter.copy_(known[name])
    return len(target_rows)


def _require_same_shape(theirs: TransformerConfig, ours: TransformerConfig) -> None:
    for field in dataclasses.fields(ours):
        before, now = getattr(theirs, field.name), getattr(ours, field.name)
        if before != now and field.name not in _MAY_DIFFER:
            raise ConfigError(f"network.{field.name}", f"{before!r}, as in the checkpoint to start from", now)


def _common_rows(theirs: Sequence[str], ours: Sequence[str]) -> Mapping[int, int]:
    """Returns our row → their row of each piece that both vocabularies have."""
    places = {piece: row for row, piece in enumerate(theirs)}
    return {row: places[piece] for row, piece in enumerate(ours) if piece in places}


def _copy_rows(theirs: Tensor, ours: Tensor, rows: Mapping[int, int]) -> None:
    ours[list(rows)] = theirs[list(rows.values())]


def _source_pieces(tokenizer: Tokenizer) -> Sequence[str]:
    return tokenizer.source_pieces(range(tokenizer.source_vocab_size))


def _target_pieces(tokenizer: Tokenizer) -> Sequence[str]:
    return tokenizer.pieces(range(tokenizer.target_vocab_size))
