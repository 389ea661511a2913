"""CTranslate2's model folder (https://opennmt.net/CTranslate2/), written through its own specification.

Values that CTranslate2 needs and our network lacks are written so that they change nothing: a missing bias as
zeros. Rows that pad a vocabulary are left out. Configurations that CTranslate2 lacks are refused by name.
"""

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs import LayerSpec
from ctranslate2.specs.common_spec import Activation, LinearSpec
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor

from model.checkpoint.folder import Checkpoint
from model.checkpoint.importing.formats.ctranslate2_network import variable_name
from model.checkpoint.importing.parameters import Parameter
from model.checkpoint.importing.vocabulary import NEVER
from model.config import TransformerConfig
from model.network.transformer import Transformer
from model.text.tokenizer import copy_tokenizer
from model.validators import require

_ACTIVATIONS = {
    "relu": Activation.RELU,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELUTanh,
    "silu": Activation.SWISH,
}


def write_ctranslate2(checkpoint: Checkpoint, folder: Path, quantization: str) -> None:
    """Writes a model that `ctranslate2.Translator` loads.

    Args:
        checkpoint: The checkpoint to export.
        folder: An empty folder.
        quantization: CTranslate2's name of the number type.

    Raises:
        ConfigError: With the field that CTranslate2 cannot represent.
    """
    card, config = checkpoint.card, checkpoint.config
    longest = max(config.max_positions, card.max_source_length, card.max_target_length)
    ruled_out = config.never_produced(checkpoint.tokenizer.target_tag_ids)
    spec = transformer_spec(checkpoint.network(), positions=longest + 1, never_produced=ruled_out)
    tokenizer = checkpoint.tokenizer
    sources = tokenizer.source_pieces(range(config.source_vocab_size))
    targets = tokenizer.pieces(range(config.target_vocab_size))
    spec.register_source_vocabulary(sources)
    spec.register_target_vocabulary(targets)
    spec.config.unk_token, spec.config.bos_token = targets[config.unk_id], targets[config.bos_id]
    spec.config.eos_token = targets[config.eos_id]
    spec.config.decoder_start_token = targets[config.decoder_start_id]
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    copy_tokenizer(checkpoint.folder, folder)


@torch.no_grad()
def transformer_spec(
    network: Transformer, *, positions: int, never_produced: Collection[int] = ()
) -> TransformerSpec:
    """Returns CTranslate2's specification of a network, without vocabularies.

    Args:
        network: An encoder-decoder in evaluation mode.
        positions: Number of sinusoidal positions to tabulate.
        never_produced: Target ids whose output bias rules them out.

    Raises:
        ConfigError: With the field that CTranslate2 cannot represent.
    """
    config = network.config
    check_ctranslate2_holds(config)
    options = _stack_options(config)
    spec = TransformerSpec(
        TransformerEncoderSpec(config.num_encoder_layers, config.num_heads, **options),
        TransformerDecoderSpec(config.num_decoder_layers, config.num_heads, **options),
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon
    if config.logit_scale != 1:
        spec.decoder.scale_outputs = config.logit_scale
    scale = network.decoder.layers[0].attention.scale
    sides = (
        (spec.encoder, network.encoder, network.source_embedding),
        (spec.decoder, network.decoder, network.target_embedding),
    )
    for stack, ours, embedding in sides:
        stack.scale_embeddings = math.sqrt(config.model_dim) if config.scale_embeddings else 1.0
        count = config.max_positions if config.positions == "learned" else positions
        table = embedding.added_positions(count, embedding.tokens.weight.device)
        if table is not None:
            stack.position_encodings.encodings = table
        for layer in stack.layer:
            for name in ("self_attention", "attention"):
                if hasattr(layer, name):
                    getattr(layer, name).queries_scale = scale
            if config.positions == "relative":
                layer.self_attention.relative_attention_bias = ours.relative_bias.weight
                distance = torch.tensor(config.relative_max_distance, dtype=torch.int32)
                layer.self_attention.relative_attention_max_distance = distance
    _fill_variables(spec, network)
    _rule_out(spec.decoder.projection, network, never_produced)
    return spec


def _fill_variables(spec: TransformerSpec, network: Transformer) -> None:
    """Fills variables with our parameters; several that share a variable stand one below the other."""
    config = network.config
    sizes = {"encoder": config.source_vocab_size, "decoder": config.target_vocab_size}
    found: dict[str, list[Tensor]] = {}
    for name, tensor in network.state_dict().items():
        parameter = Parameter.of(name)
        if parameter.module in ("embedding.positions", "relative_bias"):
            continue
        has_padding = parameter.module in ("embedding.tokens", "output")
        rows = tensor[: sizes[parameter.stack]] if has_padding else tensor
        embedding = "encoder/embeddings_0" if parameter.stack == "encoder" else "decoder/embeddings"
        found.setdefault(variable_name(parameter, embedding), []).append(rows)
    for name, tensors in found.items():
        layer, variable = _place(spec, name)
        setattr(layer, variable, torch.cat(tensors))
        if variable == "gamma" and hasattr(layer, "beta") and not config.norm_bias:
            layer.beta = torch.zeros_like(tensors[0])


def check_ctranslate2_holds(config: TransformerConfig) -> None:
    """Refuses a configuration that CTranslate2 lacks.

    Raises:
        ConfigError: With the first field that must differ.
    """
    for name in ("num_encoder_layers", "num_decoder_layers"):
        require(getattr(config, name) > 0, name, "at least 1 for CTranslate2", getattr(config, name))
    form, memory = config.norm_form, config.decoder_memory
    known = form != "standard_deviation"
    require(known, "norm_form", "'variance' or 'root_mean_square' for CTranslate2", form)
    shifts = form == "root_mean_square" and config.norm_bias
    require(not shifts, "norm_bias", "False with root_mean_square norms for CTranslate2", config.norm_bias)
    epsilon = config.embedding_norm_epsilon
    one_epsilon = not config.embedding_norm or epsilon in (None, config.norm_epsilon)
    require(one_epsilon, "embedding_norm_epsilon", "norm_epsilon or None for CTranslate2", epsilon)
    require(memory == "attention", "decoder_memory", "'attention' for CTranslate2", memory)
    ends_well = config.norm_position == "pre" or not config.final_norm
    require(ends_well, "final_norm", "False after post-norm layers for CTranslate2", config.final_norm)


def _stack_options(config: TransformerConfig) -> Mapping[str, object]:
    return {
        "pre_norm": config.norm_position == "pre",
        "no_final_norm": not config.final_norm,
        "activation": _ACTIVATIONS[config.activation],
        "ffn_glu": config.gated_ffn,
        "rms_norm": config.norm_form == "root_mean_square",
        "head_dim": config.head_dim,
        "layernorm_embedding": config.embedding_norm,
        "relative_attention_bias": config.positions == "relative",
        "relative_position": config.positions == "relative_vectors",
        "rotary_dim": 0 if config.positions == "rotary" else None,  # 0: all of a head's features
    }


def _place(spec: LayerSpec, name: str) -> tuple[Any, str]:
    """Returns the layer that holds a variable, and the variable's name there."""
    *scopes, last = name.split("/")
    for scope in scopes:
        if hasattr(spec, scope):
            spec = getattr(spec, scope)
        else:  # one of a list, such as linear_0
            items, _, number = scope.rpartition("_")
            spec = getattr(spec, items)[int(number)]
    return spec, last


def _rule_out(spec: LinearSpec, network: Transformer, never_produced: Collection[int]) -> None:
    if never_produced:
        size, has_bias = network.config.target_vocab_size, network.config.output_bias
        shift = network.output.bias[:size].clone() if has_bias else torch.zeros(size)
        shift[sorted(never_produced)] = NEVER
        spec.bias = shift
