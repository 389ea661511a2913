"""First values of every weight (https://proceedings.mlr.press/v9/glorot10a.html, and GPT-2's)."""

import math

from torch import nn

from model.config import TransformerConfig


def initialise(network: nn.Module, config: TransformerConfig) -> None:
    """Draw all weights anew, as `config.initialisation` says; biases become 0.

    `xavier`: uniform for every projection (each of a fused pair on its own), N(0, 1/M) for tokens.
    `normal`: N(0, 0.02), and 0.02 / sqrt(2 × layers) where a block writes to the residual stream.
    """
    depth = config.num_encoder_layers + config.num_decoder_layers
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            _initialise_linear(name, module, config, depth)
        elif isinstance(module, nn.Embedding):
            scaled = config.initialisation == "xavier"
            nn.init.normal_(module.weight, std=config.model_dim**-0.5 if scaled else 0.02)


def _initialise_linear(name: str, linear: nn.Linear, config: TransformerConfig, depth: int) -> None:
    if config.initialisation == "xavier":
        for part in linear.weight.split(config.model_dim) if name.endswith("key_value") else [linear.weight]:
            nn.init.xavier_uniform_(part)
    else:
        writes_residual = name.endswith(".output")
        nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * depth) if writes_residual else 0.02)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
