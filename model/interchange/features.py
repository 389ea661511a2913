"""ⓕ The order of features in the residual stream: one that no computation depends on, but positions do.

A network computes the same if the features between its blocks are renumbered everywhere. So sinusoids
that alternate (sine, cosine, sine, …) become Marian's (all sines, then all cosines) without retraining.
"""

from dataclasses import replace

import torch
from torch import Tensor

from model.transformer import Transformer

_WRITES_STREAM = (
    "attention.output.weight",
    "attention.output.bias",
    "cross.output.weight",
    "cross.output.bias",
    "feed_forward.output.weight",
    "feed_forward.output.bias",
    "norm.weight",
    "norm.bias",
)
_READS_STREAM = ("tokens.weight", "query.weight", "key_value.weight", "feed_forward.input.weight")
_OUTPUT = "output.weight"


@torch.no_grad()
def sines_first(network: Transformer) -> Transformer:
    """A network that computes the same, with all sines of its positions before the cosines.

    Args:
        network: With sinusoidal positions; returned as it is where the sines come first already.
    """
    config = network.config
    if config.sinusoid_layout == "halves":
        return network
    order = torch.cat([torch.arange(0, config.model_dim, 2), torch.arange(1, config.model_dim, 2)])
    renumbered = Transformer(replace(config, sinusoid_layout="halves"))
    tensors = {name: _renumber(name, tensor, order) for name, tensor in network.state_dict().items()}
    renumbered.load_state_dict(tensors)
    return renumbered.train(network.training)


def _renumber(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    if name.endswith(_WRITES_STREAM):
        return tensor[order]
    if name.endswith(_READS_STREAM) or name == _OUTPUT:
        return tensor[:, order]
    return tensor
