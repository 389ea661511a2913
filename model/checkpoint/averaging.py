"""ⓕ One checkpoint from several of one shape: the mean of their weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.folder import Checkpoint, save_checkpoint
from model.errors import CheckpointError
from model.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

_OF_ITS_ANSWERS = ("files", "golden", "tuning", "evaluations", "shortlist")


def average_checkpoints(checkpoints: Sequence[Checkpoint], folder: Path) -> None:
    """Write the mean of the weights, in the type the first one stores them in, with the first one's card.

    Weights that one run went on from to the other, or of one run at several moments, have a mean that
    often translates better than each (https://arxiv.org/abs/2203.05482); others have none that works.

    Args:
        checkpoints: Two or more, of the same network and vocabulary.
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
        provenance={**inherited_provenance(first), "averaged": [origin(each) for each in checkpoints]},
    )


def inherited_provenance(checkpoint: Checkpoint) -> dict[str, object]:
    """What provenance says, but for what it says of the answers, which other weights need not give."""
    return {name: value for name, value in checkpoint.provenance.items() if name not in _OF_ITS_ANSWERS}


def origin(checkpoint: Checkpoint) -> dict[str, str]:
    """What provenance says of a checkpoint that another was made of."""
    return {
        "name": checkpoint.card.name,
        "version": checkpoint.card.version,
        "checksum": checkpoint.checksum,
    }


def _mean(tensors: "Sequence[Tensor]") -> "Tensor":
    import torch

    return torch.stack([tensor.float() for tensor in tensors]).mean(0).to(tensors[0].dtype)


def _require_alike(one: Checkpoint, other: Checkpoint) -> None:
    if one.config != other.config:
        what = "network"
    elif _vocabulary(one.tokenizer) != _vocabulary(other.tokenizer):
        what = "vocabulary"
    else:
        return
    raise CheckpointError(f"{one.folder} and {other.folder} must have the same {what} to be averaged")


def _vocabulary(tokenizer: Tokenizer) -> tuple[object, ...]:
    tags = dict(tokenizer.language_tags)
    return tokenizer.scored_source_pieces(), tokenizer.scored_target_pieces(), tags, tokenizer.settings
