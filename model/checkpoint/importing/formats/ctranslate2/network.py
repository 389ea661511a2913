"""ⓕ The network that CTranslate2's `model.bin` specifies, and where the file holds each of our parameters.

CTranslate2 fuses query, key and value of self-attention (`linear_0`), and key and value of cross-attention
(`linear_1`). What we cannot compute is refused by the name of its variable.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.importing.formats.ctranslate2.binary import BinaryModel
from model.checkpoint.importing.formats.ctranslate2.text import NEVER, Vocabulary
from model.checkpoint.importing.parameters import (
    Parameter,
    Table,
    find_tie,
    in_layers,
    read_parameters,
    table_positions,
)
from model.checkpoint.importing.tensors import Part
from model.checkpoint.writing import Read
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError

_HEADS = {"": 8, "TransformerBase": 8, "TransformerBig": 16, "TransformerSpec": 8}
_NEWEST_REVISION = 7
_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
STACKS = ("encoder", "decoder")
_ENCODINGS = "position_encodings/encodings"
_BIAS = "self_attention/relative_attention_bias"
_VECTORS = "self_attention/relative_position_keys"
_MOST_LAYERS = 1000
_UNBOUNDED_POSITIONS = 1024
_ROTARY_BASE = 10000.0

# Names of OpenNMT-tf, which revision 1 kept, and what they became; each is replaced once, in this order.
_NAMES_OF_REVISION_1 = {
    "transformer/": "",
    ":0": "",
    "w_embs": "embeddings/weight",
    "kernel": "weight",
    "LayerNorm": "layer_norm",
    "dense": "projection",
    "conv1d_": "linear_",
    "conv1d": "linear_0",
}
# Scales of integers, positions, and attributes that change nothing or are read wherever they matter.
_UNUSED = re.compile(
    r".*_scale|.*/position_encodings/encodings|.*/self_attention/relative_attention_bias"
    r"|(.*/)?(num_heads|multi_query_attention|pre_norm|activation|embeddings_merge|alignment_layer|alignment_heads|scale_embeddings"
    r"|multiply_by_sqrt_depth|alibi|alibi_use_positive_positions|scale_alibi|scale_outputs|head_dim|num_heads_kv"
    r"|multi_query|queries_scale|relative_attention_max_distance|rotary_\w+|start_from_zero_embedding"
    r"|max_position_embeddings|layer_norm_use_residual"
    r"|with_source_bos|with_source_eos|with_target_bos|user_decoder_start_tokens|(unk|bos|eos)_token)"
)
_TABLE: Table = {
    "embedding.tokens": "{embedding}/{kind}",
    "embedding.positions": "{stack}/position_encodings/encodings",
    "embedding.norm": "{stack}/layernorm_embedding/{kind}",
    "output": "{stack}/projection/{kind}",
    "norm": "{stack}/layer_norm/{kind}",
    "relative_bias": "{stack}/layer_0/self_attention/relative_attention_bias",
    **in_layers(
        "{stack}/layer_{layer}/{name}",
        {
            "attention.query": "self_attention/linear_0/{kind}",
            "attention.key_value": "self_attention/linear_0/{kind}",
            "attention.output": "self_attention/linear_1/{kind}",
            "attention.relative.keys": "self_attention/relative_position_keys",
            "attention.relative.values": "self_attention/relative_position_values",
            "attention_residual.norm": "self_attention/layer_norm/{kind}",
            "cross.query": "attention/linear_0/{kind}",
            "cross.key_value": "attention/linear_1/{kind}",
            "cross.output": "attention/linear_2/{kind}",
            "cross_residual.norm": "attention/layer_norm/{kind}",
            "feed_forward.input": "ffn/linear_0/{kind}",
            "feed_forward.gate": "ffn/linear_0_noact/{kind}",
            "feed_forward.output": "ffn/linear_1/{kind}",
            "feed_forward_residual.norm": "ffn/layer_norm/{kind}",
        },
    ),
}
_NORM_KINDS = {"weight": "gamma", "bias": "beta"}


def variable_name(parameter: Parameter, embedding: str) -> str:
    """Returns the variable that holds a parameter; `embedding` is the name of its stack's embedding."""
    kind = _NORM_KINDS[parameter.kind] if parameter.module.endswith("norm") else parameter.kind
    (name,) = parameter.names(_TABLE, embedding=embedding, kind=kind)
    return name


class Network:
    """The network of a `model.bin`."""

    def __init__(self, file: BinaryModel, epsilon: float | None) -> None:
        """Begins with a file, whose variables get the names of the newest revision.

        Args:
            file: The variables.
            epsilon: `layer_norm_epsilon` of config.json.

        Raises:
            CheckpointError: If the file is no encoder-decoder that we know, or of a later revision.
        """
        if file.specification not in _HEADS:
            known = f"one of {', '.join(filter(None, _HEADS))}"
            raise refusal(file.path, "specification", known, file.specification)
        if not 1 <= file.revision <= _NEWEST_REVISION:
            raise refusal(file.path, "revision", f"1 to {_NEWEST_REVISION}", file.revision)
        if file.revision == 1:
            file.rename(_name_since_revision_2)
        self._file, self._heads, self._epsilon = file, _HEADS[file.specification], epsilon

    @property
    def starts_from_zero(self) -> bool:
        """Whether the first decoder input is a zero vector."""
        return bool(self._file.number("decoder/start_from_zero_embedding", 0))

    def config(
        self, source: Vocabulary, target: Vocabulary, special_ids: Mapping[str, int]
    ) -> TransformerConfig:
        """Returns the configuration of our network.

        Args:
            source: Source ids.
            target: Target ids.
            special_ids: `pad_id`, `bos_id`, `eos_id`, `unk_id` and `decoder_start_id`.

        Raises:
            CheckpointError: With the variable that we cannot compute.
        """
        values: dict[str, object] = {
            "source_vocab_size": len(source.pieces),
            "target_vocab_size": len(target.pieces),
            "model_dim": self._file.sizes("decoder/embeddings/weight", 2)[1],
            "num_heads": self._agreed_number("num_heads", self._heads),
            "num_encoder_layers": self._depth("encoder"),
            "num_decoder_layers": self._depth("decoder"),
            "ffn_dim": self._file.sizes("decoder/layer_0/ffn/linear_0/weight", 2)[0],
            "activation": self._activation(),
            "gated_ffn": self._has("decoder/layer_0/ffn/linear_0_noact/weight"),
            "output_bias": self._has("decoder/projection/bias") or target.known < len(target.pieces),
            "scale_embeddings": self._scales_embeddings(),
            "logit_scale": self._file.number("decoder/scale_outputs", 1),
            "tie": self._tie(source, target),
            **self._norms(),
            **self._biases(),
            **self._attention(),
            **self._positions(),
            **special_ids,
        }
        self._require_rows(source, target)
        self._refuse_alibi()
        try:
            return TransformerConfig.from_dict(values)
        except ConfigError as error:
            raise CheckpointError(f"{self._file.path}: {error}") from error

    def tensors(self, config: TransformerConfig, source: Vocabulary, target: Vocabulary) -> dict[str, Read]:
        """Returns how to read every parameter, none of which is read before.

        Raises:
            CheckpointError: With the first variable that is missing, of another shape, or not part of such a
                network.
        """

        def parts_of(parameter: Parameter) -> list[Part]:
            is_source = parameter.stack == "encoder"
            return [self._part(parameter, config, source if is_source else target)]

        return read_parameters(self._file, config, parts_of, unused=_UNUSED)

    def _part(self, parameter: Parameter, config: TransformerConfig, vocabulary: Vocabulary) -> Part:
        """Returns where the file has one of our parameters."""
        stack, module, is_bias = parameter.stack, parameter.module, parameter.kind == "bias"
        name = variable_name(parameter, self._embedding(stack).removesuffix("/weight"))
        rows, filler = None, 0.0
        if module in ("embedding.tokens", "output"):
            rows, filler = vocabulary.rows_in(self._file.get(name)), NEVER if is_bias else 0.0
        elif module == "embedding.positions":
            rows = np.arange(config.max_positions)
        elif module in ("attention.query", "attention.key_value", "cross.key_value"):
            rows = self._rows_of_heads(name, module, config)
        return Part(name, rows, filler, is_optional=is_bias)

    def _rows_of_heads(self, name: str, module: str, config: TransformerConfig) -> NDArray[np.intp] | None:
        """Returns the rows of queries, or of keys and values, which self-attention fuses with its queries."""
        is_self, width = module.startswith("attention"), config.heads_dim
        if module == "attention.query":
            order = self._query_order(config, is_self)
            return np.arange(width) if order is None else order
        order = self._key_value_order(config, is_self)
        if not is_self:
            return order
        end = self._file[name].shape[0] if self._has(name) else 3 * width
        return np.arange(width, end) if order is None else width + order

    def _query_order(self, config: TransformerConfig, is_self: bool) -> NDArray[np.intp] | None:
        """Rows of adjacent pairs if the file's rotations pair the halves of a head."""
        if not is_self or config.positions != "rotary" or self._rotary("rotary_interleave", 1):
            return None
        return _interleaved(config.num_heads, config.head_dim).reshape(-1)

    def _key_value_order(self, config: TransformerConfig, is_self: bool) -> NDArray[np.intp] | None:
        """As of queries, and rows repeated for the heads that share keys and values in the file."""
        heads, groups = config.num_heads, self._key_value_heads(config.num_heads)
        order = self._query_order(config, is_self)
        if order is None and groups == heads:
            return None
        keys = (
            np.arange(groups * config.head_dim).reshape(groups, -1)
            if order is None
            else _interleaved(groups, config.head_dim)
        )
        values = np.arange(groups * config.head_dim).reshape(groups, -1) + groups * config.head_dim
        return np.concatenate([np.repeat(each, heads // groups, 0).reshape(-1) for each in (keys, values)])

    def _key_value_heads(self, heads: int) -> int:
        if self._number_everywhere("multi_query", 0):
            return 1
        groups = int(self._number_everywhere("num_heads_kv", heads))
        if groups < 1 or heads % groups:
            raise refusal(self._file.path, "num_heads_kv", f"a divisor of num_heads ({heads})", groups)
        return groups

    def _has(self, name: str) -> bool:
        return name in self._file

    def _depth(self, stack: str) -> int:
        depth = 0
        while self._has(f"{stack}/layer_{depth}/self_attention/linear_0/weight") and depth <= _MOST_LAYERS:
            depth += 1
        if not 1 <= depth <= _MOST_LAYERS:
            raise refusal(self._file.path, f"{stack}/layer", f"1 to {_MOST_LAYERS} layers", depth)
        return depth

    def _embedding(self, stack: str) -> str:
        single = f"{stack}/embeddings/weight"
        return single if self._has(single) else f"{stack}/embeddings_0/weight"

    def _agreed(self, what: str, value_of: Callable[[str], object]) -> object:
        """Returns what both stacks have in common."""
        encoder, decoder = (value_of(stack) for stack in STACKS)
        if encoder != decoder:
            raise refusal(self._file.path, f"decoder/{what}", f"the encoder's ({encoder})", decoder)
        return encoder

    def _agreed_number(self, name: str, default: float) -> int:
        def value(stack: str) -> float:
            return self._file.number(f"{stack}/{name}", self._file.number(name, default))

        number = self._agreed(name, value)
        if not isinstance(number, float | int) or number != int(number):
            raise refusal(self._file.path, name, "a whole number", number)
        return int(number)

    def _attention_scopes(self) -> list[str]:
        return [
            f"{stack}/layer_{layer}/{attention}"
            for stack in STACKS
            for layer in range(self._depth(stack))
            for attention in ("self_attention", "attention")[: 1 if stack == "encoder" else 2]
        ]

    def _number_everywhere(self, name: str, default: float, scopes: Sequence[str] | None = None) -> float:
        """Returns an attribute that all attentions have in common."""
        first = None
        for scope in scopes or self._attention_scopes():
            value = self._file.number(f"{scope}/{name}", default)
            first = value if first is None else first
            if value != first:
                raise refusal(self._file.path, f"{scope}/{name}", f"the other attentions' ({first})", value)
        return default if first is None else first

    def _activation(self) -> str:
        number = self._agreed_number("activation", 0)
        if number not in _ACTIVATIONS:
            known = ", ".join(f"{key} ({name})" for key, name in _ACTIVATIONS.items())
            raise refusal(self._file.path, "activation", f"one of {known}", number)
        return _ACTIVATIONS[number]

    def _norms(self) -> dict[str, object]:
        gains = [name for name in self._file if name.endswith("/gamma")]
        shifted = [self._has(name.removesuffix("gamma") + "beta") for name in gains]
        if any(shifted) != all(shifted):
            name = gains[shifted.index(not shifted[0])]
            raise refusal(self._file.path, name, "a norm of the same kind as the others", "another")
        is_shifted = all(shifted)
        epsilon = self._epsilon if self._epsilon is not None else 1e-5 if is_shifted else 1e-6

        def has(name: str) -> Callable[[str], bool]:
            return lambda stack: self._has(f"{stack}/{name}/gamma")

        return {
            "norm_position": "pre" if self._agreed_number("pre_norm", 1) else "post",
            "norm_form": "variance" if is_shifted else "root_mean_square",
            "norm_bias": is_shifted,
            "norm_epsilon": epsilon,
            "final_norm": self._agreed("layer_norm", has("layer_norm")),
            "embedding_norm": self._agreed("layernorm_embedding", has("layernorm_embedding")),
        }

    def _biases(self) -> dict[str, object]:
        biases = [name for name in self._file if name.endswith("/bias")]
        return {
            "attention_bias": any("attention/linear" in name for name in biases),
            "ffn_bias": any("/ffn/linear" in name for name in biases),
        }

    def _attention(self) -> dict[str, object]:
        heads = self._agreed_number("num_heads", self._heads)
        model_dim, width = self._file.sizes("decoder/layer_0/self_attention/linear_1/weight", 2)
        values: dict[str, object] = {"attention_dim": None if width == model_dim else width}
        head_dim = self._number_everywhere("head_dim", model_dim // max(heads, 1))
        scale = self._number_everywhere("queries_scale", 1 / math.sqrt(max(head_dim, 1)))
        usual = 1 / math.sqrt(max(width // max(heads, 1), 1))
        return values | {"attention_scale": None if math.isclose(scale, usual, rel_tol=1e-6) else scale}

    def _positions(self) -> dict[str, object]:
        first = "layer_0/self_attention"

        def both_have(name: str) -> bool:
            return bool(self._agreed(f"{first}/{name}", lambda stack: self._has(f"{stack}/{first}/{name}")))

        if both_have("rotary_dim"):
            return self._rotary_positions()
        if both_have("relative_attention_bias"):
            return self._relative_positions()
        if both_have("relative_position_keys"):
            return self._relative_vectors()
        return self._added_positions()

    def _rotary(self, name: str, default: float) -> float:
        scopes = [scope for scope in self._attention_scopes() if scope.endswith("/self_attention")]
        return self._number_everywhere(name, default, scopes)

    def _rotary_positions(self) -> dict[str, object]:
        width = self._file.sizes("decoder/layer_0/self_attention/linear_1/weight", 2)[1]
        head_dim = width // max(self._agreed_number("num_heads", 8), 1)
        for name, usual in (("rotary_base", _ROTARY_BASE), ("rotary_scaling_type", -1)):
            if (value := self._rotary(name, usual)) != usual:
                raise refusal(self._file.path, name, f"{usual:g}", value)
        if (turned := self._rotary("rotary_dim", 0)) not in (0, head_dim):
            raise refusal(self._file.path, "rotary_dim", f"0 or {head_dim}, the width of a head", turned)
        return {"positions": "rotary", "max_positions": _UNBOUNDED_POSITIONS}

    def _relative_positions(self) -> dict[str, object]:
        scopes = [scope for scope in self._attention_scopes() if scope.endswith("/self_attention")]
        for scope in scopes:
            first = f"{scope.partition('/')[0]}/layer_0/{_BIAS}"
            own = f"{scope}/relative_attention_bias"
            if self._has(own) and not self._file.same(own, first):
                raise refusal(self._file.path, own, "that of the first layer", "another")
        distance = self._number_everywhere("relative_attention_max_distance", 128, scopes)
        return {
            "positions": "relative",
            "relative_buckets": self._file.sizes(f"decoder/layer_0/{_BIAS}", 2)[0],
            "relative_max_distance": int(distance),
            "max_positions": _UNBOUNDED_POSITIONS,
        }

    def _relative_vectors(self) -> dict[str, object]:
        rows = self._file.sizes(f"decoder/layer_0/{_VECTORS}", 2)[0]
        if rows % 2 == 0:
            raise refusal(self._file.path, f"decoder/layer_0/{_VECTORS}", "an odd number of rows", rows)
        return {
            "positions": "relative_vectors",
            "relative_max_distance": rows // 2,
            "max_positions": _UNBOUNDED_POSITIONS,
        }

    def _added_positions(self) -> dict[str, object]:
        """A table of sinusoids becomes the formula that makes it, another one is learned."""
        names = [f"{stack}/{_ENCODINGS}" for stack in STACKS]
        if not self._agreed(_ENCODINGS, lambda stack: self._has(f"{stack}/{_ENCODINGS}")):
            formula = {"sinusoid_layout": "halves", "sinusoid_offset": 1, "sinusoid_endpoint": True}
            return {"positions": "sinusoidal", "max_positions": _UNBOUNDED_POSITIONS} | formula
        rows = np.arange(min(self._file.sizes(name, 2)[0] for name in names))
        return table_positions([self._file.read(Part(name, rows))().floats() for name in names])

    def _scales_embeddings(self) -> bool:
        model_dim = self._file.sizes("decoder/embeddings/weight", 2)[1]

        def factor(stack: str) -> float:
            old = f"{self._embedding(stack).removesuffix('weight')}multiply_by_sqrt_depth"
            name = next((each for each in (f"{stack}/scale_embeddings", old) if self._has(each)), None)
            is_flag = name is None or self._file[name].dtype == "int8"
            value = 1.0 if name is None else self._file.number(name, 1)
            if is_flag:
                return math.sqrt(model_dim) if value else 1.0
            return math.sqrt(model_dim) if math.isclose(value, math.sqrt(model_dim), rel_tol=1e-3) else value

        value = self._agreed("scale_embeddings", factor)
        if value not in (1.0, math.sqrt(model_dim)):
            raise refusal(self._file.path, "scale_embeddings", f"1 or {math.sqrt(model_dim):g}", value)
        return value != 1.0 or model_dim == 1

    def _tie(self, source: Vocabulary, target: Vocabulary) -> str:
        names = self._embedding("encoder"), "decoder/embeddings/weight", "decoder/projection/weight"
        can_share = np.array_equal(source.rows, target.rows)
        return find_tie(self._file, *names, can_share=can_share)

    def _require_rows(self, source: Vocabulary, target: Vocabulary) -> None:
        """Requires that matrices have a row for each piece of the vocabularies, and at most that of <unk>."""
        matrices = {self._embedding("encoder"): source, "decoder/embeddings/weight": target}
        for name, vocabulary in {**matrices, "decoder/projection/weight": target}.items():
            rows = self._file.sizes(name, 2)[0]
            if rows not in (vocabulary.listed, vocabulary.known):
                needed = f"of {vocabulary.listed} rows, as the vocabulary has pieces"
                raise refusal(self._file.path, name, needed, rows)

    def _refuse_alibi(self) -> None:
        if value := self._file.number("decoder/alibi", 0):
            raise refusal(self._file.path, "decoder/alibi", "0, as these positions cannot be computed", value)


def _interleaved(heads: int, head_dim: int) -> NDArray[np.intp]:
    """Rows of each head such that those of one rotation, apart by half a head, become neighbours."""
    order = np.arange(head_dim).reshape(2, -1).T.reshape(-1)
    return np.arange(heads)[:, None] * head_dim + order


def _name_since_revision_2(name: str) -> str:
    for old, new in _NAMES_OF_REVISION_1.items():
        name = name.replace(old, new, 1)
    if "encoder" in name:
        return name.replace("multi_head", "self_attention", 1)
    return name.replace("masked_multi_head", "self_attention", 1).replace("multi_head", "attention", 1)
