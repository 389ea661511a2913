"""ⓕ What the families' networks have in common: activations, embeddings and how they are tied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from model.checkpoint.importing.hugging_face.weights import ForeignWeights
from model.checkpoint.importing.variables import tie
from model.checkpoint.writing import Read
from model.errors import CheckpointError

ACTIVATIONS: Mapping[str, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Our activations by the names in transformers."""


@dataclass(frozen=True)
class Network:
    """The shape, in fields of TransformerConfig, and how to read each tensor, by our names."""

    shape: dict[str, object]
    tensors: dict[str, Read]

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Rows of the source and of the target embedding."""
        return cast(int, self.shape["source_vocab_size"]), cast(int, self.shape["target_vocab_size"])


def tied(
    weights: ForeignWeights, *, source: Sequence[str], target: Sequence[str], output: Sequence[str]
) -> Network:
    """Returns the embeddings and the output matrix, with their sizes and `tie`.

    As in transformers, tensors are tied if they are equal, and a tensor that the file lacks is the one of the
    next name.

    Raises:
        CheckpointError: If a matrix is missing.
    """
    first, second, last = (_present(weights, names) for names in (source, target, output))
    is_one_embedding, is_tied = weights.same(first, second), weights.same(second, last)
    tensors: dict[str, Read] = {"source_embedding.tokens.weight": weights.read(first)}
    if not is_one_embedding:
        tensors["target_embedding.tokens.weight"] = weights.read(second)
    if not is_tied:
        tensors["output.weight"] = weights.read(last)
    sizes = {"source_vocab_size": weights.shape(first)[0], "target_vocab_size": weights.shape(second)[0]}
    return Network({**sizes, "tie": tie(shares_embeddings=is_one_embedding, shares_output=is_tied)}, tensors)


def _present(weights: ForeignWeights, names: Sequence[str]) -> str:
    found = next((name for name in names if name in weights and weights.shape(name)), None)
    if found is None:
        raise CheckpointError(f"{weights.path}: tensor {names[0]!r} is missing")
    return found
