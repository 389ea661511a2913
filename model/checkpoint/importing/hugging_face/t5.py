"""ⓕ T5, mT5 and MADLAD-400: RMSNorm, bucketed relative positions, attention without scale and biases.

The first layer's relative bias is that of all layers. T5 scales logits by d^−½ unless its file says that
they are not tied. Whether the tensors are tied is another question, which their numbers answer.
"""

from collections.abc import Mapping

from model.checkpoint.importing.fields import Fields
from model.checkpoint.importing.foreign import stacked
from model.checkpoint.importing.hugging_face.network import ACTIVATIONS, Network, tied
from model.checkpoint.importing.hugging_face.weights import ForeignWeights
from model.checkpoint.writing import Read

_DEFAULTS: Mapping[str, object] = {
    "feed_forward_proj": "relu",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "tie_word_embeddings": True,
    "n_positions": 512,
}
_SHARED = "shared.weight"
_GATED = "gated-"


def read_network(fields: Fields, weights: ForeignWeights) -> Network:
    """Returns shape and tensors of a T5 or mT5 model.

    Raises:
        CheckpointError: With the field or tensor that cannot be imported.
    """
    family = fields.text("model_type")
    fields = fields.with_defaults({**_DEFAULTS, "num_decoder_layers": fields.get("num_layers")})
    sides = tied(
        weights,
        source=("encoder.embed_tokens.weight", _SHARED),
        target=("decoder.embed_tokens.weight", _SHARED),
        output=("lm_head.weight", _SHARED),
    )
    model_dim = fields.integer("d_model", 1)
    num_heads = fields.integer("num_heads", 1)
    # transformers reads `gated-gelu` as the approximation by tanh.
    act = {
        **ACTIVATIONS,
        **{_GATED + name: ours for name, ours in ACTIVATIONS.items()},
        "gated-gelu": "gelu_tanh",
    }
    is_gated = fields.text("feed_forward_proj").startswith(_GATED)
    # transformers 5 writes the first of these fields, and the second as true whatever the model is.
    says = (
        "scale_decoder_outputs" if fields.get("scale_decoder_outputs") is not None else "tie_word_embeddings"
    )
    is_scaled = family == "t5" and fields.flag(says)
    shape = {
        **sides.shape,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "attention_dim": num_heads * fields.integer("d_kv", 1),
        "attention_scale": 1.0,
        "num_encoder_layers": fields.integer("num_layers", 1),
        "num_decoder_layers": fields.integer("num_decoder_layers", 1),
        "ffn_dim": fields.integer("d_ff", 1),
        "activation": fields.choice("feed_forward_proj", act),
        "gated_ffn": is_gated,
        "norm_position": "pre",
        "norm_form": "root_mean_square",
        "norm_bias": False,
        "norm_epsilon": fields.number("layer_norm_epsilon"),
        "final_norm": True,
        "attention_bias": False,
        "ffn_bias": False,
        "positions": "relative",
        "relative_buckets": fields.integer("relative_attention_num_buckets", 4),
        "relative_max_distance": fields.integer("relative_attention_max_distance", 4),
        "scale_embeddings": False,
        "logit_scale": model_dim**-0.5 if is_scaled else 1.0,
        "max_positions": fields.integer("n_positions", 1),
    }
    tensors = dict(sides.tensors)
    for side in ("encoder", "decoder"):
        tensors[f"{side}.norm.weight"] = weights.read(f"{side}.final_layer_norm.weight")
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        tensors[f"{side}.relative_bias.weight"] = weights.read(bias)
        for layer in range(fields.integer("num_layers" if side == "encoder" else "num_decoder_layers")):
            theirs = f"{side}.block.{layer}.layer"
            tensors |= _layer(weights, f"{side}.layers.{layer}", theirs, side == "decoder", is_gated)
    return Network(shape, tensors)


def _layer(
    weights: ForeignWeights, ours: str, theirs: str, is_decoder: bool, is_gated: bool
) -> dict[str, Read]:
    blocks = [("attention", "SelfAttention"), *([("cross", "EncDecAttention")] if is_decoder else [])]
    tensors: dict[str, Read] = {}
    for number, (block, name) in enumerate(blocks):
        their_block = f"{theirs}.{number}.{name}"
        tensors[f"{ours}.{block}.query.weight"] = weights.read(f"{their_block}.q.weight")
        both = (weights.read(f"{their_block}.{part}.weight") for part in ("k", "v"))
        tensors[f"{ours}.{block}.key_value.weight"] = stacked(*both)
        tensors[f"{ours}.{block}.output.weight"] = weights.read(f"{their_block}.o.weight")
        tensors[f"{ours}.{block}_residual.norm.weight"] = weights.read(f"{theirs}.{number}.layer_norm.weight")
    last = f"{theirs}.{len(blocks)}"
    inner = {"input": "wi_0", "gate": "wi_1", "output": "wo"} if is_gated else {"input": "wi", "output": "wo"}
    for part, name in inner.items():
        tensors[f"{ours}.feed_forward.{part}.weight"] = weights.read(f"{last}.DenseReluDense.{name}.weight")
    tensors[f"{ours}.feed_forward_residual.norm.weight"] = weights.read(f"{last}.layer_norm.weight")
    return tensors
