"""ⓕ Checkpoints made of others: rewritten in place, averaged, or deepened."""

import dataclasses
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint, save_checkpoint
from model.checkpoint.manifest import (
    PROVENANCE,
    read_config,
    read_json,
    refusals,
    verify_files,
    write_config,
    write_provenance,
)
from model.checkpoint.shortlist import SHORTLIST, Shortlist, shortlist_bytes
from model.config import ONLY_FOR_TRAINING
from model.errors import CheckpointError
from model.files import atomic_folder
from model.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

_OF_ITS_ANSWERS = ("files", "scores", "evaluations", "tuning", "golden", "shortlist")


def inherited_provenance(checkpoint: Checkpoint) -> dict[str, object]:
    """What provenance says, but for what it says of the answers, which other weights need not give."""
    return {name: value for name, value in checkpoint.provenance.items() if name not in _OF_ITS_ANSWERS}


def identity(checkpoint: Checkpoint) -> dict[str, str]:
    """By what a checkpoint can be known again."""
    return {
        "name": checkpoint.card.name,
        "version": checkpoint.card.version,
        "checksum": checkpoint.checksum,
    }


@contextmanager
def rewritten(folder: Path, noted: Mapping[str, object]) -> Iterator[Path]:
    """Give a copy of a checkpoint to change, and put it in its place when the block ends well.

    What else lies in the folder stays there, and stays unlisted in provenance.json.

    Args:
        folder: A checkpoint; gets a new checksum.
        noted: JSON values for provenance.json, in the place of what it has under these names.

    Raises:
        CheckpointError: If the folder is not sound, or cannot be written; it is as it was then.
    """
    listed = verify_files(folder)
    provenance = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    with refusals(folder), atomic_folder(folder) as temporary:
        for name in listed:
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
        write_provenance(temporary, {**provenance, **noted})
        _copy_missing(folder, temporary)


def replace_card(folder: Path, card: ModelCard, noted: Mapping[str, object]) -> None:
    """Let a checkpoint say something else about itself; its network stays as it is.

    Args:
        folder: A checkpoint; gets a new checksum.
        card: The new one.
        noted: See `rewritten`.

    Raises:
        CheckpointError: As `rewritten`.
    """
    config, _ = read_config(folder)
    with rewritten(folder, noted) as temporary:
        write_config(temporary, config, card)


def _copy_missing(origin: Path, folder: Path) -> None:
    for path in origin.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, folder / path.name, symlinks=True)
        elif not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name, follow_symlinks=False)


def add_shortlist(folder: Path, shortlist: Shortlist, origin: Mapping[str, object]) -> None:
    """Give a checkpoint a shortlist, or another one, in one step; its checksum is a new one.

    Args:
        folder: A checkpoint.
        shortlist: Checked already.
        origin: Where it comes from, as JSON values; kept in provenance.json under `shortlist`.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is as it was then.
    """
    with rewritten(folder, {"shortlist": origin}) as temporary:
        (temporary / SHORTLIST).write_bytes(shortlist_bytes(shortlist))


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


_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_OUTPUT = re.compile(r"(attention|cross|feed_forward)\.output\.(weight|bias)")


def deepen_checkpoint(
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
