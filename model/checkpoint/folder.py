"""ⓕ Writing a checkpoint folder, and reading one after verifying it. Only PyTorch's networks need torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from model.checkpoint.card import ModelCard
from model.checkpoint.importing.formats import import_advice
from model.checkpoint.manifest import (
    CONFIG,
    PROVENANCE,
    check_format_version,
    fingerprint,
    list_files,
    read_config,
    read_json,
    read_records,
    require_listed,
    verify_file,
    write_config,
    write_errors,
    write_provenance,
)
from model.checkpoint.shortlist import SHORTLIST, Shortlist, read_shortlist, write_shortlist
from model.checkpoint.weights import StorageType, StoredTensors, read_weights, weight_files
from model.checkpoint.weights_writer import Read, storable, write_weights
from model.config import TransformerConfig
from model.errors import CheckpointError, TokenizerError
from model.files import atomic_folder
from model.network.parameters import count_parameters, parameter_names, parameter_shapes
from model.text.tokenizer import SETTINGS_FILE, TOKENIZER_FILES, Tokenizer, copy_tokenizer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from model.network.transformer import Transformer

PICKLE_SUFFIXES = (".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth")


@dataclass(frozen=True, kw_only=True)
class ListedCheckpoint:
    """The description of a checkpoint folder, whose files are there but have not been read.

    Attributes:
        folder: The folder.
        config: Shape of the network.
        card: Name, pairs, limits, decoding defaults.
        checksum: SHA-256 of the checkpoint, hexadecimal, as provenance.json has it.
        provenance: Content of provenance.json.
    """

    folder: Path
    config: TransformerConfig
    card: ModelCard
    checksum: str
    provenance: Mapping[str, object]

    @property
    def num_parameters(self) -> int:
        """Number of trained values; tied ones count once."""
        return count_parameters(parameter_shapes(self.config))


@dataclass(frozen=True, kw_only=True)
class Checkpoint(ListedCheckpoint):
    """A checkpoint folder that has passed every check.

    Attributes:
        tokenizer: Text ↔ token ids.
        weights: Parameters by name, tied ones once, in the type they are stored in; read one at a time.
            Empty if the checkpoint was loaded without them.
        shortlist: The target tokens that a sentence may be translated with; None if the folder has none.
    """

    tokenizer: Tokenizer
    weights: StoredTensors
    shortlist: Shortlist | None = None

    def state_dict(self) -> "dict[str, Tensor]":
        """Reads all weights for PyTorch, in their stored type; int8 as float32."""
        return {name: tensor.torch() for name, tensor in self.weights.items()}

    def network(self, *, dtype: "torch.dtype | None" = None) -> "Transformer":
        """Returns the network with a copy of these weights, on the CPU and in evaluation mode.

        Args:
            dtype: Type to compute in; None is float32.

        Raises:
            CheckpointError: If a file has been changed in place since it was verified.
        """
        import torch
        from torch import nn

        from model.network.layers import meta_init
        from model.network.transformer import Transformer

        with meta_init():
            network = Transformer(self.config)
        numbers = dtype or torch.float32
        parameters = {
            name: nn.Parameter(tensor.torch().to(numbers, copy=True)) for name, tensor in self.weights.items()
        }
        for name, first in parameter_names(self.config).items():
            parameters[name] = parameters[first]
        network.load_state_dict(parameters, strict=True, assign=True)
        return network.eval()


def save_checkpoint(
    folder: Path | str,
    *,
    config: TransformerConfig,
    weights: "Mapping[str, Tensor | Read]",
    card: ModelCard,
    tokenizer_folder: Path | str,
    provenance: Mapping[str, object],
    storage: StorageType | None = None,
    shortlist: Shortlist | None = None,
) -> None:
    """Writes a checkpoint folder in one step, one tensor after the other.

    Args:
        folder: Folder to write; an existing one is replaced.
        config: Shape of the network.
        weights: The network's `state_dict()`, or functions that read its tensors; tied ones are stored once.
        card: The card.
        tokenizer_folder: Folder of the tokenizer's files, which are copied.
        provenance: JSON values: data, steps, scores, code version. `files` is added to them.
        storage: Type to store in, see `write_weights`; None keeps the type of the weights.
        shortlist: The target tokens that a sentence may be translated with; None writes none.

    Raises:
        CheckpointError: If the weights or the tokenizer do not match `config`, the weights are not finite, or
            the folder cannot be written. An existing folder is unchanged then.
    """
    tensors = storable(config, weights)
    _load_tokenizer(Path(tokenizer_folder), config)
    with write_errors(Path(folder)), atomic_folder(Path(folder)) as temporary:
        write_config(temporary, config, card)
        write_weights(temporary, config, tensors, storage)
        copy_tokenizer(Path(tokenizer_folder), temporary)
        if shortlist is not None:
            write_shortlist(temporary, shortlist)
        write_provenance(temporary, provenance)


def list_checkpoint(folder: Path | str) -> ListedCheckpoint:
    """Reads the description of a checkpoint folder, which takes milliseconds.

    Raises:
        CheckpointError: If the folder is missing or incomplete, a file has another size than provenance.json
            says, or the description is invalid.
    """
    folder = _recognised(Path(folder))
    records = list_files(folder)
    require_listed(folder, (CONFIG, SETTINGS_FILE), records)
    config, card = read_config(folder)
    return ListedCheckpoint(
        folder=folder,
        config=config,
        card=card,
        checksum=fingerprint(records),
        provenance=read_json(folder / PROVENANCE),
    )


def _recognised(folder: Path) -> Path:
    """Returns a folder that looks like a checkpoint; the error tells how to import another format."""
    try:
        _check_presence(folder)
        check_format_version(folder)
    except CheckpointError as error:
        if advice := import_advice(folder):
            raise CheckpointError(advice) from error
        raise
    return folder


def load_checkpoint(folder: Path | str, *, with_weights: bool = True) -> Checkpoint:
    """Reads and verifies a checkpoint folder.

    Args:
        folder: The folder.
        with_weights: Whether to verify and open the weights, which are the largest files.

    Raises:
        CheckpointError: If the folder is missing, incomplete, corrupt, of an unknown format or of another
            shape than config.json says, holds NaN, or has a tokenizer of another vocabulary.
    """
    folder = _recognised(Path(folder))
    records = read_records(folder)
    verified_when_read = weight_files(folder, records)
    for name in records.keys() - set(verified_when_read):
        verify_file(folder / name, records[name])
    present = (name for name in (*TOKENIZER_FILES, SHORTLIST) if (folder / name).exists())
    require_listed(folder, (CONFIG, SETTINGS_FILE, *present), records)
    config, card = read_config(folder)
    return Checkpoint(
        folder=folder,
        config=config,
        card=card,
        tokenizer=_load_tokenizer(folder, config),
        weights=read_weights(folder, config, records) if with_weights else StoredTensors({}),
        checksum=fingerprint(records),
        provenance=read_json(folder / PROVENANCE),
        shortlist=read_shortlist(folder, config) if SHORTLIST in records else None,
    )


def _check_presence(folder: Path) -> None:
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise CheckpointError(f"checkpoint {folder} {state}")
    if not (folder / CONFIG).exists():
        pickles = [path.name for path in sorted(folder.iterdir()) if path.suffix in PICKLE_SUFFIXES]
        hint = f" ({pickles[0]} looks like a pickle, which is never read)" if pickles else ""
        raise CheckpointError(f"checkpoint {folder} is incomplete: {CONFIG} is missing{hint}")


def _load_tokenizer(folder: Path, config: TransformerConfig) -> Tokenizer:
    try:
        tokenizer = Tokenizer.load(folder)
    except TokenizerError as error:
        raise CheckpointError(f"the tokenizer of {folder} cannot be used: {error}") from error
    for name in ("source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id", "unk_id"):
        found, expected = getattr(tokenizer, name), getattr(config, name)
        if found != expected:
            raise CheckpointError(
                f"the tokenizer of {folder} does not fit the network: its {name} is {found}, "
                f"but config.json says {expected}"
            )
    return tokenizer
