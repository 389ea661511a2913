"""ⓕ A deeper checkpoint from one that is trained: more layers, which at first add nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.descent import identity, inherited_provenance
from model.checkpoint.folder import Checkpoint, save_checkpoint
from model.errors import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_OUTPUT = re.compile(r"(attention|cross|feed_forward)\.output\.(weight|bias)")


def grow_checkpoint(
    checkpoint: Checkpoint, folder: Path, *, num_encoder_layers: int, num_decoder_layers: int
) -> None:
    """Write a deeper network that translates as this one does, to be trained further.

    The layers are spread evenly over the new depth, and what comes before one is a copy of it whose sublayers
    put out 0: in a pre-norm network, x + f(norm(x)), that leaves x as it is. The last layer stays the last,
    whose attention alignments are made of. Training then finds in the copies what is worth adding
    (Wang et al. 2023, https://arxiv.org/abs/2310.07999).

    Args:
        checkpoint: Of a pre-norm network.
        folder: Target; everything an existing folder holds is replaced.
        num_encoder_layers: As many as there are, or more; none where there are none.
        num_decoder_layers: Likewise.

    Raises:
        CheckpointError: If the network is post-norm or would not be deeper, or the folder cannot be written.
        ConfigError: If it would be too deep.
    """
    old = checkpoint.config
    if (num_encoder_layers, num_decoder_layers) == (old.num_encoder_layers, old.num_decoder_layers):
        raise CheckpointError(
            f"`num_encoder_layers` or `num_decoder_layers` must be more than {old.num_encoder_layers} or "
            f"{old.num_decoder_layers}, as in {checkpoint.folder}, but neither is"
        )
    if old.norm_position != "pre":
        raise CheckpointError(
            f"{checkpoint.folder} must be pre-norm to grow, but is {old.norm_position}-norm"
        )
    places = {
        "encoder": _places("num_encoder_layers", old.num_encoder_layers, num_encoder_layers),
        "decoder": _places("num_decoder_layers", old.num_decoder_layers, num_decoder_layers),
    }
    save_checkpoint(
        folder,
        config=replace(old, num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers),
        weights=dict(_grown(checkpoint.state_dict(), places)),
        card=checkpoint.card,
        tokenizer_folder=checkpoint.folder,
        provenance={**inherited_provenance(checkpoint), "grown": identity(checkpoint)},
    )


def _places(field: str, old: int, new: int) -> list[list[int]]:
    """Of each old layer its new places: copies in the first ones, itself in the last."""
    if not old and new:
        raise CheckpointError(f"`{field}` must be 0, as there are none to copy, but is {new} instead")
    if new < old:
        raise CheckpointError(f"`{field}` must be {old} or more, but is {new} instead")
    return [list(range(-(-layer * new // old), -(-(layer + 1) * new // old))) for layer in range(old)]


def _grown(
    weights: Mapping[str, "Tensor"], places: Mapping[str, list[list[int]]]
) -> Iterator[tuple[str, "Tensor"]]:
    for name, weight in weights.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            yield name, weight
            continue
        stack, layer, part = match.groups()
        *copies, last = places[stack][int(layer)]
        silent = weight.new_zeros(weight.shape) if _OUTPUT.fullmatch(part) else weight
        yield from ((f"{stack}.layers.{copy}.{part}", silent.clone()) for copy in copies)
        yield f"{stack}.layers.{last}.{part}", weight
