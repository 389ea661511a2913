"""Checkpoints made from others: edited in place, averaged, or deepened."""

import dataclasses
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint, save_checkpoint
from model.checkpoint.manifest import (
    PROVENANCE,
    read_config,
    read_json,
    verify_files,
    write_config,
    write_errors,
    write_provenance,
)
from model.checkpoint.shortlist import Shortlist, write_shortlist
from model.checkpoint.weights import StorageType, StoredTensor
from model.checkpoint.weights_writer import Read
from model.config import ONLY_FOR_TRAINING
from model.errors import CheckpointError
from model.files import atomic_folder
from model.text.tokenizer import Tokenizer

_OUTPUT_KEYS = ("files", "scores", "evaluations", "tuning", "golden", "shortlist")
_KEPT_WITH_WEIGHTS = ("golden", "shortlist")

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)")
_OUTPUT = re.compile(r"(attention|cross|feed_forward)\.output\.(weight|bias)")


def inherited_provenance(checkpoint: Checkpoint) -> dict[str, object]:
    """Returns the provenance without the keys that describe the output of these weights."""
    return {name: value for name, value in checkpoint.provenance.items() if name not in _OUTPUT_KEYS}


def identity(checkpoint: Checkpoint) -> dict[str, str]:
    """Returns the name, version and checksum of a checkpoint."""
    return {
        "name": checkpoint.card.name,
        "version": checkpoint.card.version,
        "checksum": checkpoint.checksum,
    }


@contextmanager
def edited_checkpoint(folder: Path, noted: Mapping[str, object]) -> Iterator[Path]:
    """Yields a copy of a checkpoint to change, which replaces the checkpoint if the block raises no error.

    Other files in the folder stay, and stay unlisted in provenance.json.

    Args:
        folder: A checkpoint; its checksum changes.
        noted: JSON values to set in provenance.json.

    Raises:
        CheckpointError: If the folder is broken or cannot be written; it is unchanged then.
    """
    listed = verify_files(folder)
    provenance = {key: value for key, value in read_json(folder / PROVENANCE).items() if key != "files"}
    with write_errors(folder), atomic_folder(folder) as temporary:
        for name in listed:
            shutil.copyfile(folder / name, temporary / name)
        yield temporary
        write_provenance(temporary, {**provenance, **noted})
        _copy_missing(folder, temporary)


def replace_card(folder: Path, card: ModelCard, noted: Mapping[str, object]) -> None:
    """Replaces the card of a checkpoint; the network stays.

    Args:
        folder: A checkpoint; its checksum changes.
        card: The new card.
        noted: See `edited_checkpoint`.

    Raises:
        CheckpointError: As `edited_checkpoint`.
    """
    config, _ = read_config(folder)
    with edited_checkpoint(folder, noted) as temporary:
        write_config(temporary, config, card)


def _copy_missing(origin: Path, folder: Path) -> None:
    for path in origin.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, folder / path.name, symlinks=True)
        elif not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name, follow_symlinks=False)


def add_shortlist(folder: Path, shortlist: Shortlist, origin: Mapping[str, object]) -> None:
    """Adds or replaces the shortlist of a checkpoint in one step.

    Args:
        folder: A checkpoint; its checksum changes.
        shortlist: A shortlist that has been checked.
        origin: How it was made, as JSON values for provenance.json.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is unchanged then.
    """
    with edited_checkpoint(folder, {"shortlist": origin}) as temporary:
        write_shortlist(temporary, shortlist)


def average_checkpoints(
    checkpoints: Sequence[Checkpoint], folder: Path, storage: StorageType | None = None
) -> None:
    """Writes the mean of the weights, with the card of the first checkpoint.

    If the weights come from one run at several steps, or one run began with the weights of the other, their
    mean often translates better than each of them (https://arxiv.org/abs/2203.05482). Other means do not
    work.

    Args:
        checkpoints: Several, of one shape and vocabulary; dropout may differ. Of one, the weights are stored
            again, and its shortlist and self-test sentences stay.
        folder: Folder to write; an existing one is replaced.
        storage: Type to store in, see `write_weights`; None takes that of the first checkpoint.

    Raises:
        CheckpointError: If the checkpoints do not match, or the folder cannot be written.
    """
    first, *others = checkpoints
    for other in others:
        _require_alike(first, other)
    provenance = inherited_provenance(first)
    if not others:
        provenance |= {key: value for key, value in first.provenance.items() if key in _KEPT_WITH_WEIGHTS}
    save_checkpoint(
        folder,
        config=first.config,
        weights={name: partial(_mean, name, checkpoints, storage) for name in first.weights},
        card=first.card,
        tokenizer_folder=first.folder,
        provenance={**provenance, "averaged": [identity(each) for each in checkpoints]},
        storage=storage,
        shortlist=None if others else first.shortlist,
    )


def _mean(name: str, checkpoints: Sequence[Checkpoint], storage: StorageType | None) -> StoredTensor:
    first, *others = checkpoints
    if not others:
        return first.weights[name]
    floats = np.stack([each.weights[name].floats() for each in checkpoints])
    return StoredTensor.rounded(
        floats.mean(0, dtype=np.float32), "float32" if storage else first.weights.dtypes[name]
    )


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
    # Training may continue with spaces after marks: the pieces mean the same.
    settings = dataclasses.replace(tokenizer.settings, space_after_marks=False)
    return tokenizer.source.scored_pieces(), tokenizer.target.scored_pieces(), tags, settings


def deepen_checkpoint(
    checkpoint: Checkpoint, folder: Path, *, num_encoder_layers: int, num_decoder_layers: int
) -> None:
    """Writes a deeper network whose translations are equal, for further training.

    The layers are spread evenly over the new depth. Each is preceded by copies of itself whose sublayers
    output 0, which leaves x unchanged in a pre-norm network, x + f(norm(x)). The last layer stays the last,
    as alignments come from its attention. Training then changes the copies (Wang et al. 2023,
    https://arxiv.org/abs/2310.07999).

    Args:
        checkpoint: A checkpoint of a pre-norm network.
        folder: Folder to write; an existing one is replaced.
        num_encoder_layers: At least as many as now; 0 if there are none now.
        num_decoder_layers: At least as many as now; 0 if there are none now.

    Raises:
        CheckpointError: If the network is post-norm, would not be deeper or has a recurrent decoder that
            would be deeper; or if the folder cannot be written.
        ConfigError: If the network would be too deep.
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
    if old.decoder_memory == "ssru" and num_decoder_layers != old.num_decoder_layers:
        # relu(0) has no gradient: a cell that outputs 0 never learns.
        raise CheckpointError(f"{checkpoint.folder} must have self-attention in its decoder for that to grow")
    places = {
        "encoder": _new_places("num_encoder_layers", old.num_encoder_layers, num_encoder_layers),
        "decoder": _new_places("num_decoder_layers", old.num_decoder_layers, num_decoder_layers),
    }
    save_checkpoint(
        folder,
        config=replace(old, num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers),
        weights=dict(_deepened(checkpoint.weights, places)),
        card=checkpoint.card,
        tokenizer_folder=checkpoint.folder,
        provenance={**inherited_provenance(checkpoint), "grown": identity(checkpoint)},
    )


def _new_places(field: str, old: int, new: int) -> list[list[int]]:
    """Returns the new places of each old layer: copies in all but the last, the layer itself in the last."""
    if not old and new:
        raise CheckpointError(f"`{field}` must be 0, as there are none to copy, but is {new} instead")
    if new < old:
        raise CheckpointError(f"`{field}` must be {old} or more, but is {new} instead")
    return [list(range(-(-layer * new // old), -(-(layer + 1) * new // old))) for layer in range(old)]


def _deepened(
    weights: Mapping[str, StoredTensor], places: Mapping[str, list[list[int]]]
) -> Iterator[tuple[str, Read]]:
    for name in weights:
        read = partial(weights.__getitem__, name)
        match = _LAYER.fullmatch(name)
        if match is None:
            yield name, read
            continue
        stack, layer, part = match.groups()
        *copies, last = places[stack][int(layer)]
        silent = partial(_zeros, read) if _OUTPUT.fullmatch(part) else read
        yield from ((f"{stack}.layers.{copy}.{part}", silent) for copy in copies)
        yield f"{stack}.layers.{last}.{part}", read


def _zeros(read: Read) -> StoredTensor:
    tensor = read()
    return replace(tensor, values=np.zeros_like(tensor.values))
