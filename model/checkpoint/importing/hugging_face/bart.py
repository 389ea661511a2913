"""ⓕ The relatives of BART, which name their tensors alike: MarianMT, Pegasus, M2M100 and NLLB, mBART.

marian    post-norm, sinusoids with all sines first
pegasus   pre-norm with final norms, the same sinusoids
m2m_100   pre-norm with final norms, fairseq's sinusoids from position 2
mbart     pre-norm with final norms, learned positions from row 2, a norm after the embedding
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from model.checkpoint.importing.fields import Fields
from model.checkpoint.importing.foreign import changed, stacked
from model.checkpoint.importing.hugging_face.network import ACTIVATIONS, Network, tied
from model.checkpoint.importing.hugging_face.weights import ForeignWeights
from model.checkpoint.importing.variables import Rows
from model.checkpoint.writing import Read

_SIZES: Mapping[str, object] = {"scale_embedding": False, "activation_function": "gelu"}
_SINUSOIDS = {"positions": "sinusoidal", "sinusoid_layout": "halves"}
_PRE_NORM = {"norm_position": "pre", "final_norm": True}
# fairseq numbers positions from its padding id + 1.
_FIRST_POSITION = 2


@dataclass(frozen=True)
class _Family:
    """What a family fixes, in fields of TransformerConfig, and the defaults of its config.json."""

    shape: Mapping[str, object]
    defaults: Mapping[str, object] = field(default_factory=dict)


_FAMILIES: Mapping[str, _Family] = {
    "marian": _Family(_SINUSOIDS),
    "pegasus": _Family(_SINUSOIDS | _PRE_NORM),
    "m2m_100": _Family(
        _SINUSOIDS | _PRE_NORM | {"sinusoid_offset": _FIRST_POSITION, "sinusoid_endpoint": True},
        {"scale_embedding": True, "activation_function": "relu"},
    ),
    "mbart": _Family(_PRE_NORM | {"positions": "learned", "embedding_norm": True}),
}


def read_network(fields: Fields, weights: ForeignWeights) -> Network:
    """Returns shape and tensors of a model of one of these families.

    Raises:
        CheckpointError: With the field or tensor that cannot be imported.
    """
    family = _FAMILIES[fields.text("model_type")]
    fields = fields.with_defaults({**_SIZES, **family.defaults})
    sides = tied(
        weights,
        source=("model.encoder.embed_tokens.weight", "model.shared.weight"),
        target=("model.decoder.embed_tokens.weight", "model.shared.weight"),
        output=("lm_head.weight", "model.decoder.embed_tokens.weight", "model.shared.weight"),
    )
    shape: dict[str, object] = {
        **family.shape,
        **sides.shape,
        "model_dim": fields.integer("d_model", 1),
        "num_heads": fields.same("encoder_attention_heads", "decoder_attention_heads"),
        "num_encoder_layers": fields.integer("encoder_layers", 1),
        "num_decoder_layers": fields.integer("decoder_layers", 1),
        "ffn_dim": fields.same("encoder_ffn_dim", "decoder_ffn_dim"),
        "activation": fields.choice("activation_function", ACTIVATIONS),
        "scale_embeddings": fields.flag("scale_embedding"),
        "max_positions": fields.integer("max_position_embeddings", 1),
    }
    tensors = dict(sides.tensors)
    bias = weights.nonzero("final_logits_bias")
    if bias is not None:
        shape["output_bias"] = True
        tensors["output.bias"] = changed(bias, lambda values: values.reshape(-1))
    for ours, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        depth = fields.integer(f"{ours}_layers", 1)
        tensors |= _stack(weights, ours, embedding, depth, family.shape)
    return Network(shape, tensors)


def _stack(
    weights: ForeignWeights, ours: str, embedding: str, depth: int, shape: Mapping[str, object]
) -> dict[str, Read]:
    theirs = f"model.{ours}"
    tensors: dict[str, Read] = {}
    if shape["positions"] == "learned":
        table = f"{theirs}.embed_positions.weight"
        rows = Rows(np.arange(_FIRST_POSITION, weights.shape(table)[0]))
        tensors[f"{embedding}.positions.weight"] = weights.read(table, rows)
    if shape.get("embedding_norm"):
        tensors |= _pair(weights, f"{embedding}.norm", f"{theirs}.layernorm_embedding")
    if shape.get("final_norm"):
        tensors |= _pair(weights, f"{ours}.norm", f"{theirs}.layer_norm")
    for layer in range(depth):
        tensors |= _layer(weights, f"{ours}.layers.{layer}", f"{theirs}.layers.{layer}", ours == "decoder")
    return tensors


def _layer(weights: ForeignWeights, ours: str, theirs: str, is_decoder: bool) -> dict[str, Read]:
    tensors = _attention(weights, f"{ours}.attention", f"{theirs}.self_attn")
    tensors |= _pair(weights, f"{ours}.attention_residual.norm", f"{theirs}.self_attn_layer_norm")
    if is_decoder:
        tensors |= _attention(weights, f"{ours}.cross", f"{theirs}.encoder_attn")
        tensors |= _pair(weights, f"{ours}.cross_residual.norm", f"{theirs}.encoder_attn_layer_norm")
    tensors |= _pair(weights, f"{ours}.feed_forward.input", f"{theirs}.fc1")
    tensors |= _pair(weights, f"{ours}.feed_forward.output", f"{theirs}.fc2")
    return tensors | _pair(weights, f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")


def _attention(weights: ForeignWeights, ours: str, theirs: str) -> dict[str, Read]:
    tensors = _pair(weights, f"{ours}.query", f"{theirs}.q_proj")
    for part in ("weight", "bias"):
        both = (weights.read(f"{theirs}.{name}_proj.{part}") for name in ("k", "v"))
        tensors[f"{ours}.key_value.{part}"] = stacked(*both)
    return tensors | _pair(weights, f"{ours}.output", f"{theirs}.out_proj")


def _pair(weights: ForeignWeights, ours: str, theirs: str) -> dict[str, Read]:
    """Returns weight and bias of a projection or a norm."""
    return {f"{ours}.{part}": weights.read(f"{theirs}.{part}") for part in ("weight", "bias")}
