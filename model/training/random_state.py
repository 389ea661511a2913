"""ⓔ All the random generators that a step may draw from: seeded, captured, restored."""

import random
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's generators (CPU and every GPU)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 — the global generator is what libraries draw from
    torch.manual_seed(seed)


def capture_random_state() -> tuple[dict[str, Tensor], dict[str, object]]:
    """Every generator's state: tensors by name, and what JSON can hold."""
    tensors = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"random.cuda.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    tensors["random.numpy"] = torch.from_numpy(np.asarray(keys).astype(np.int64))
    plain: dict[str, object] = {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), int(position), int(has_gauss), float(cached)],
    }
    return tensors, plain


def restore_random_state(tensors: Mapping[str, Tensor], plain: Mapping[str, object]) -> None:
    """Put every generator back to what `capture_random_state` saw."""
    torch.set_rng_state(tensors["random.cpu"])
    for i in range(torch.cuda.device_count()):
        if (state := tensors.get(f"random.cuda.{i}")) is not None:
            torch.cuda.set_rng_state(state, i)
    version, internal, gauss = plain["python"]  # type: ignore[misc]
    random.setstate((version, tuple(internal), gauss))
    name, position, has_gauss, cached = plain["numpy"]  # type: ignore[misc]
    keys = tensors["random.numpy"].numpy().astype(np.uint32)
    np.random.set_state((name, keys, position, has_gauss, cached))  # noqa: NPY002
