"""The networks of Hugging Face's families: what config.json says, and the names of the tensors.

marian    post-norm, sinusoids with all sines first
pegasus   pre-norm with final norms, the same sinusoids
m2m_100   pre-norm with final norms, fairseq's sinusoids from position 2 (also NLLB)
mbart     pre-norm with final norms, learned positions from row 2, a norm after the embedding
t5, mt5   pre-norm RMSNorm, relative positions, attention without scale and biases (also MADLAD-400)

The first four are relatives of BART, which name their tensors alike. T5's first relative bias is that of all
layers. T5 scales logits by d^−½ unless its file says that they are not tied; whether the tensors are tied is
another question, which their numbers answer.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from model.checkpoint.importing.parameters import Parameter, Table, find_tie, in_layers, read_parameters
from model.checkpoint.importing.reader import Fields
from model.checkpoint.importing.tensors import Part, StateDict
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError

_ACTIVATIONS: Mapping[str, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Our activations by the names in transformers."""
_GATED = "gated-"
_T5_ACTIVATIONS: Mapping[str, str] = {
    **_ACTIVATIONS,
    **{_GATED + name: ours for name, ours in _ACTIVATIONS.items()},
    "gated-gelu": "gelu_tanh",
}
"""The same for T5; transformers reads `gated-gelu` as the approximation by tanh."""

_BART_LAYER: Table = {
    "attention.query": "self_attn.q_proj",
    "attention.key_value": ("self_attn.k_proj", "self_attn.v_proj"),
    "attention.output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "cross.query": "encoder_attn.q_proj",
    "cross.key_value": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "cross.output": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.input": "fc1",
    "feed_forward.output": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
_T5_LAYER: Table = {
    "attention.query": "0.SelfAttention.q",
    "attention.key_value": ("0.SelfAttention.k", "0.SelfAttention.v"),
    "attention.output": "0.SelfAttention.o",
    "attention_residual.norm": "0.layer_norm",
    "cross.query": "1.EncDecAttention.q",
    "cross.key_value": ("1.EncDecAttention.k", "1.EncDecAttention.v"),
    "cross.output": "1.EncDecAttention.o",
    "cross_residual.norm": "1.layer_norm",
    "feed_forward.input": "{last}.DenseReluDense.{inner}",
    "feed_forward.gate": "{last}.DenseReluDense.wi_1",
    "feed_forward.output": "{last}.DenseReluDense.wo",
    "feed_forward_residual.norm": "{last}.layer_norm",
}


_EMBEDDINGS: Table = {"embedding.tokens": "{tokens}", "output": "{output}"}
BART: Table = {
    **_EMBEDDINGS,
    "embedding.positions": "model.{stack}.embed_positions.weight",
    "embedding.norm": "model.{stack}.layernorm_embedding.{kind}",
    "norm": "model.{stack}.layer_norm.{kind}",
    **in_layers("model.{stack}.layers.{layer}.{name}.{kind}", _BART_LAYER),
}
_T5: Table = {
    **_EMBEDDINGS,
    "norm": "{stack}.final_layer_norm.weight",
    "relative_bias": "{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    **in_layers("{stack}.block.{layer}.layer.{name}.{kind}", _T5_LAYER),
}
FINAL_BIAS = "final_logits_bias"
# In layers, what is left over computes something. Elsewhere files hold copies and tables of sinusoids.
_UNUSED = re.compile(
    r"(?!(model\.)?(encoder|decoder)\.(layers|block)\.).*"
    r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
)
_SINUSOIDS = {"positions": "sinusoidal", "sinusoid_layout": "halves"}
_PRE_NORM = {"norm_position": "pre", "final_norm": True}
_FIRST_POSITION = 2
"""fairseq numbers positions from its padding id + 1."""
_BART_SHAPES: Mapping[str, Mapping[str, object]] = {
    "marian": _SINUSOIDS,
    "pegasus": _SINUSOIDS | _PRE_NORM,
    "m2m_100": _SINUSOIDS | _PRE_NORM | {"sinusoid_offset": _FIRST_POSITION, "sinusoid_endpoint": True},
    "mbart": _PRE_NORM | {"positions": "learned", "embedding_norm": True},
}
"""What a family fixes, in fields of TransformerConfig."""
_BART_DEFAULTS: Mapping[str, object] = {"scale_embedding": False, "activation_function": "gelu"}
_T5_DEFAULTS: Mapping[str, object] = {
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "feed_forward_proj": "relu",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "tie_word_embeddings": True,
    "n_positions": 512,
}


def _bart_defaults(**values: object) -> Mapping[str, object]:
    names = {"pad": "pad_token_id", "eos": "eos_token_id", "bos": "bos_token_id"}
    names |= {"start": "decoder_start_token_id"}
    return {**_BART_DEFAULTS, **{names.get(name, name): value for name, value in values.items()}}


DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "marian": _bart_defaults(pad=58100, eos=0, start=58100),
    "pegasus": _bart_defaults(pad=0, eos=1, start=0),
    "m2m_100": _bart_defaults(pad=1, eos=2, bos=0, start=2, scale_embedding=True, activation_function="relu"),
    "mbart": _bart_defaults(pad=1, eos=2, bos=0),
    "t5": _T5_DEFAULTS,
    "mt5": _T5_DEFAULTS,
}
"""By `model_type`, the values that transformers leaves out of config.json."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The network of a folder.

    Attributes:
        shape: Fields of TransformerConfig, without special ids.
        weights: The tensors.
        table: Their names, see `model.checkpoint.importing.parameters`.
        words: Further words of these names, for each stack.
    """

    shape: Mapping[str, object]
    weights: StateDict
    table: Table
    words: Mapping[str, Mapping[str, str]]

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Rows of the source and of the target embedding."""
        return cast(int, self.shape["source_vocab_size"]), cast(int, self.shape["target_vocab_size"])

    def tensors(self, config: TransformerConfig) -> dict[str, Read]:
        """Returns how to read every parameter."""
        return read_parameters(self.weights, config, self._parts, unused=_UNUSED)

    def _parts(self, parameter: Parameter) -> list[Part]:
        if parameter.module == "output" and parameter.kind == "bias":
            return [Part(FINAL_BIAS, is_optional=True)]
        names = parameter.names(self.table, **self.words[parameter.stack])
        if parameter.module == "embedding.positions":
            end = self.weights[names[0]].shape[0]
            return [Part(names[0], rows=np.arange(_FIRST_POSITION, end))]
        return [Part(name) for name in names]


def read_network(fields: Fields, weights: StateDict) -> Network:
    """Returns the network of a folder of one of the families."""
    family = fields.text("model_type")
    if family in _BART_SHAPES:
        return _read_bart(fields, weights, _BART_SHAPES[family])
    return _read_t5(fields, weights)


def _read_bart(fields: Fields, weights: StateDict, fixed: Mapping[str, object]) -> Network:
    shape, words = _embeddings(
        weights,
        source=("model.encoder.embed_tokens.weight", "model.shared.weight"),
        target=("model.decoder.embed_tokens.weight", "model.shared.weight"),
        output=("lm_head.weight", "model.decoder.embed_tokens.weight", "model.shared.weight"),
    )
    if FINAL_BIAS in weights:
        weights.reshape(FINAL_BIAS, math.prod(weights[FINAL_BIAS].shape))
    shape |= {
        **fixed,
        "model_dim": fields.integer("d_model", 1),
        "num_heads": fields.same("encoder_attention_heads", "decoder_attention_heads"),
        "num_encoder_layers": fields.integer("encoder_layers", 1),
        "num_decoder_layers": fields.integer("decoder_layers", 1),
        "ffn_dim": fields.same("encoder_ffn_dim", "decoder_ffn_dim"),
        "activation": fields.choice("activation_function", _ACTIVATIONS),
        "scale_embeddings": fields.flag("scale_embedding"),
        "max_positions": fields.integer("max_position_embeddings", 1),
        "output_bias": FINAL_BIAS in weights and bool(weights[FINAL_BIAS].numbers().any()),
    }
    return Network(shape=shape, weights=weights, table=BART, words=words)


def _read_t5(fields: Fields, weights: StateDict) -> Network:
    shape, words = _embeddings(
        weights,
        source=("encoder.embed_tokens.weight", "shared.weight"),
        target=("decoder.embed_tokens.weight", "shared.weight"),
        output=("lm_head.weight", "shared.weight"),
    )
    model_dim, num_heads = fields.integer("d_model", 1), fields.integer("num_heads", 1)
    decoder_depth = "num_layers" if fields.get("num_decoder_layers") is None else "num_decoder_layers"
    is_gated = fields.text("feed_forward_proj").startswith(_GATED)
    # transformers 5 has a field for the scale, and writes that embeddings are tied whatever the model is.
    has_field = fields.get("scale_decoder_outputs") is not None
    field = "scale_decoder_outputs" if has_field else "tie_word_embeddings"
    is_scaled = fields.text("model_type") == "t5" and fields.flag(field)
    shape |= {
        **_PRE_NORM,
        "model_dim": model_dim,
        "num_heads": num_heads,
        "attention_dim": num_heads * fields.integer("d_kv", 1),
        "attention_scale": 1.0,
        "num_encoder_layers": fields.integer("num_layers", 1),
        "num_decoder_layers": fields.integer(decoder_depth, 1),
        "ffn_dim": fields.integer("d_ff", 1),
        "activation": fields.choice("feed_forward_proj", _T5_ACTIVATIONS),
        "gated_ffn": is_gated,
        "norm_form": "root_mean_square",
        "norm_bias": False,
        "norm_epsilon": fields.number("layer_norm_epsilon"),
        "attention_bias": False,
        "ffn_bias": False,
        "positions": "relative",
        "relative_buckets": fields.integer("relative_attention_num_buckets", 4),
        "relative_max_distance": fields.integer("relative_attention_max_distance", 4),
        "scale_embeddings": False,
        "logit_scale": model_dim**-0.5 if is_scaled else 1.0,
        "max_positions": fields.integer("n_positions", 1),
    }
    for stack, last in (("encoder", "1"), ("decoder", "2")):
        words[stack] |= {"inner": "wi_0" if is_gated else "wi", "last": last}
    return Network(shape=shape, weights=weights, table=_T5, words=words)


def _embeddings(
    weights: StateDict, *, source: Sequence[str], target: Sequence[str], output: Sequence[str]
) -> tuple[dict[str, object], dict[str, dict[str, str]]]:
    """Returns sizes and `tie` of the embeddings and the output matrix, and their names by stack.

    As in transformers, a tensor that the file lacks is the one of the next name.
    """
    first, second, last = (_present(weights, names) for names in (source, target, output))
    sizes = {"source_vocab_size": weights[first].shape[0], "target_vocab_size": weights[second].shape[0]}
    words = {"encoder": {"tokens": first}, "decoder": {"tokens": second, "output": last}}
    return {**sizes, "tie": find_tie(weights, first, second, last)}, words


def _present(weights: StateDict, names: Sequence[str]) -> str:
    found = next((name for name in names if name in weights and weights[name].shape), None)
    if found is None:
        raise CheckpointError(f"{weights.path}: tensor {names[0]!r} is missing")
    return found
