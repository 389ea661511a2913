"""ⓕ One checkpoint from several of one shape: the mean of their weights."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.descent import identity, inherited_provenance
from model.checkpoint.folder import Checkpoint, save_checkpoint
from model.config import ONLY_FOR_TRAINING
from model.errors import CheckpointError
from model.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor


def average_checkpoints(checkpoints: Sequence[Checkpoint], folder: Path) -> None:
    """Write the mean of the weights, in the type the first one stores them in, with the first one's card.

    Weights that one run went on from to the other, or of one run at several moments, have a mean that
    often translates better than each (https://arxiv.org/abs/2203.05482); others have none that works.

    Args:
        checkpoints: Two or more, of one shape and vocabulary; dropout may differ.
        folder: Target; everything an existing folder holds is replaced.

    Raises:
        CheckpointError: If they do not fit each other, or the folder cannot be written.
    """
    first, *others = checkpoints
    for other in others:
        _require_alike(first, other)
    save_checkpoint(
        folder,
        config=first.config,
        weights={name: _mean([each.weights[name].torch() for each in checkpoints]) for name in first.weights},
        card=first.card,
        tokenizer_folder=first.folder,
        provenance={**inherited_provenance(first), "averaged": [identity(each) for each in checkpoints]},
    )


def _mean(tensors: "Sequence[Tensor]") -> "Tensor":
    import torch

    return torch.stack([tensor.float() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def _require_alike(one: Checkpoint, other: Checkpoint) -> None:
    for name, expected in dataclasses.asdict(one.config).items():
        found = getattr(other.config, name)
        if found != expected and name not in ONLY_FOR_TRAINING:
            raise CheckpointError(
                f"{other.folder}: `{name}` must be {expected!r}, as in {one.folder}, but is {found!r} instead"
            )
    if _vocabulary(one.tokenizer) != _vocabulary(other.tokenizer):
        raise CheckpointError(f"{other.folder} must have the vocabulary of {one.folder}, but has another one")


def _vocabulary(tokenizer: Tokenizer) -> tuple[object, ...]:
    tags = dict(tokenizer.language_tags)
    return tokenizer.scored_source_pieces(), tokenizer.scored_target_pieces(), tags, tokenizer.settings
