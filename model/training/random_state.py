"""ⓔ All the random generators that a step may draw from: seeded, captured, restored."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators (CPU and GPU)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_share(seed: int, rank: int, step: int) -> None:
    """Seed them all for what one of several processes draws in one update."""
    words = np.random.SeedSequence([seed, rank, step]).generate_state(1, np.uint64)
    seed_everything(int(words[0]))


def capture_random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Every generator's state, of GPUs the current one's: tensors by name, and what JSON can hold."""
    tensors = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        tensors["random.cuda.0"] = torch.cuda.get_rng_state()
    legacy: dict[str, Any] = dict(np.random.get_state(legacy=False))
    tensors["random.numpy"] = torch.from_numpy(legacy["state"]["key"].astype(np.int64))
    numpy = {"pos": int(legacy["state"]["pos"]), "gauss": [int(legacy["has_gauss"]), float(legacy["gauss"])]}
    return tensors, {"python": random.getstate(), "numpy": numpy}


def restore_random_state(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Put every generator back to what `capture_random_state` saw, also after a trip through JSON."""
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available() and "random.cuda.0" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda.0"])
    version, internal, gauss = plain["python"]
    random.setstate((version, tuple(internal), gauss))
    keys = tensors["random.numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, plain["numpy"]["pos"], *plain["numpy"]["gauss"]))
