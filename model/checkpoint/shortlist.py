"""Shortlists: the target tokens that a sentence may be translated with, and their file. No torch.

The candidates of a sentence are some frequent tokens and the likeliest translations of each source token
(Jean et al. 2015, https://arxiv.org/abs/1412.2007). Projecting onto a few thousand tokens is less work than
projecting onto the vocabulary.

The file is optional. Like every other file, it is listed in provenance.json and verified.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from model.validators import require

Ids = NDArray[np.int32]

SHORTLIST = "shortlist.safetensors"
_ARRAYS = ("always", "offsets", "candidates")


@dataclass(frozen=True, eq=False)
class Shortlist:
    """A list of target ids for every source id.

    Attributes:
        always: Target ids that any sentence may be translated with, including EOS.
        offsets: The candidates of source id i are `candidates[offsets[i]:offsets[i + 1]]`.
        candidates: Target ids.
    """

    always: Ids
    offsets: Ids
    candidates: Ids

    def check(self, config: TransformerConfig) -> None:
        """Refuses a shortlist that does not match the network.

        Raises:
            ConfigError: With the name of the array at fault.
        """
        for name in ("always", "offsets", "candidates"):
            array = getattr(self, name)
            described = f"{array.dtype} of shape {array.shape}"
            require(array.dtype == np.int32 and array.ndim == 1, name, "a vector of int32", described)
        for name in ("always", "candidates"):
            ids = getattr(self, name)
            wrong = ids[(ids < 0) | (ids >= config.target_vocab_size)]
            require(not len(wrong), name, f"ids below {config.target_vocab_size}", wrong[:1].tolist())
        require(config.eos_id in self.always, "always", "ids with EOS among them", "none")
        length = config.source_vocab_size + 1
        require(len(self.offsets) == length, "offsets", f"{length} numbers", len(self.offsets))
        ends = int(self.offsets[0]), int(self.offsets[-1])
        is_ordered = bool((np.diff(self.offsets) >= 0).all()) and ends == (0, len(self.candidates))
        require(is_ordered, "offsets", f"ascending from 0 to {len(self.candidates)}", ends)

    def choose(self, source_ids: Iterable[int], also: Iterable[int] = ()) -> Ids:
        """Returns the target ids that a sentence may be translated with.

        Args:
            source_ids: The sentence's tokens.
            also: Further target ids that it needs: those of a given prefix.

        Returns:
            Target ids, each once, ascending.
        """
        bounds = self._bounds
        is_chosen = self._is_always.copy()
        lists = [self.candidates[bounds[token] : bounds[token + 1]] for token in {*source_ids}]
        is_chosen[np.concatenate(lists)] = True
        chosen = np.flatnonzero(is_chosen).astype(np.int32)
        needed = np.fromiter(also, dtype=np.int32)
        return np.union1d(chosen, needed) if len(needed) else chosen

    @cached_property
    def _bounds(self) -> list[int]:
        """The offsets as Python numbers, which are faster to look up one by one."""
        bounds: list[int] = self.offsets.tolist()
        return bounds

    @cached_property
    def _is_always(self) -> NDArray[np.bool_]:
        largest = max(int(self.always.max()), int(self.candidates.max(initial=0)))
        is_always = np.zeros(largest + 1, dtype=np.bool_)
        is_always[self.always] = True
        return is_always


def read_shortlist(folder: Path, config: TransformerConfig) -> Shortlist:
    """Reads and checks the shortlist of a checkpoint.

    Raises:
        CheckpointError: If the file is broken, or does not match the network.
    """
    path = folder / SHORTLIST
    try:
        arrays = load_file(path)
        if arrays.keys() != set(_ARRAYS):
            raise CheckpointError(f"{path} must hold {', '.join(_ARRAYS)}, but has {', '.join(arrays)}")
        shortlist = Shortlist(**arrays)
        shortlist.check(config)
    # Types that numpy lacks raise the last two.
    except (SafetensorError, OSError, ValueError, ConfigError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error
    return shortlist


def write_shortlist(folder: Path, shortlist: Shortlist) -> None:
    """Writes the file that `read_shortlist` reads."""
    (folder / SHORTLIST).write_bytes(save({name: getattr(shortlist, name) for name in _ARRAYS}))
