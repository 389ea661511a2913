"""The network that CTranslate2's `model.bin` specifies, and where the file holds each of our parameters.

CTranslate2 fuses query, key and value of self-attention (`linear_0`), and key and value of cross-attention
(`linear_1`). What we cannot compute is refused by the name of its variable.

The file is an index of variables, each of them read when it is needed. It holds, in little-endian order: the
version of the format, name and revision of the specification, the variables (name, shape, type, numbers), and
aliases, by which shared variables are stored once. No torch.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.parameters import (
    Parameter,
    Table,
    find_tie,
    in_layers,
    read_parameters,
    table_positions,
)
from model.checkpoint.importing.reader import network_config, refusal
from model.checkpoint.importing.tensors import TYPES, BinaryReader, ForeignTensor, ForeignTensors, Part
from model.checkpoint.importing.vocabulary import Vocabularies
from model.checkpoint.manifest import read_errors
from model.checkpoint.weights import StoredTensor
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError

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
NEWEST_VERSION = 6

_TYPES_BY_SIZE = {4: "float32", 2: "int16", 1: "int8"}
_MOST_DIMENSIONS = 8
_LEAST_VARIABLE_BYTES = 8
_MOST_TEXT_BYTES = 1000
_INT16_SCALE_OF_OLD_FILES = np.float32(1000)


class BinaryModel(ForeignTensors):
    """An opened `model.bin`, whose index has been checked against the size of the file.

    Attributes:
        path: The file.
        version: Version of the format, 1 to 6.
        specification: Name of the network's specification; empty in version 1.
        revision: Revision of the specification.
    """

    def __init__(self, path: Path) -> None:
        """Reads the index."""
        super().__init__(path, {})
        with read_errors(path), path.open("rb") as file:
            self._read_index(BinaryReader(path, file))

    def _read_index(self, reader: BinaryReader) -> None:
        self.version = reader.integer(4, "version")
        if not 1 <= self.version <= NEWEST_VERSION:
            raise refusal(self.path, "version", f"1 to {NEWEST_VERSION}", self.version)
        self.specification = _text(reader, "specification") if self.version >= 2 else ""
        self.revision = reader.integer(4, "revision") if self.version >= 2 else 1
        count = reader.integer(4, "number of variables")
        if count * _LEAST_VARIABLE_BYTES > reader.size:
            raise refusal(self.path, "number of variables", "possible in a file of this size", count)
        for _ in range(count):
            self._add(_text(reader, "name of a variable"), reader)
        for _ in range(reader.integer(4, "number of aliases") if self.version >= 3 else 0):
            self._add_alias(_text(reader, "alias"), _text(reader, "name behind an alias"))
        if reader.position != reader.size:
            raise refusal(self.path, "size of the file", f"{reader.position} bytes", reader.size)

    def _add(self, name: str, reader: BinaryReader) -> None:
        self._require_new(name)
        rank = reader.integer(1, name)
        if rank > _MOST_DIMENSIONS:
            raise refusal(self.path, name, f"of at most {_MOST_DIMENSIONS} dimensions", rank)
        shape = tuple(reader.integer(4, name) for _ in range(rank))
        kind = reader.integer(1, name)
        types = dict(enumerate(TYPES)) if self.version >= 4 else _TYPES_BY_SIZE
        if kind not in types:
            raise refusal(self.path, name, f"of a type with a number in {sorted(types)}", kind)
        dtype = types[kind]
        size = reader.integer(4, name) * (1 if self.version >= 4 else kind)
        if size != math.prod(shape) * TYPES[dtype].itemsize:
            raise refusal(self.path, name, f"of as many bytes as {dtype} numbers of shape {shape} have", size)
        self[name] = ForeignTensor(self.path, reader.skip(size, name), shape, dtype)

    def _add_alias(self, alias: str, name: str) -> None:
        self._require_new(alias)
        if name not in self:
            raise refusal(self.path, alias, "an alias of a variable or alias before it", name)
        for suffix in ("", "_scale", "_zero"):
            if name + suffix in self:
                self.setdefault(alias + suffix, self[name + suffix])

    def _require_new(self, name: str) -> None:
        if name in self:
            raise refusal(self.path, name, "there once", "twice")

    def rename(self, name_of: Callable[[str], str]) -> None:
        """Gives each variable the name that a function makes of its present one."""
        before = dict(self)
        self.clear()
        for name, variable in before.items():
            self._require_new(name_of(name))
            self[name_of(name)] = variable

    def text(self, name: str) -> str:
        """Returns a variable whose bytes are text."""
        variable = self[name]
        if variable.dtype != "int8" or math.prod(variable.shape) > _MOST_TEXT_BYTES:
            raise refusal(self.path, name, f"at most {_MOST_TEXT_BYTES} bytes of text", list(variable.shape))
        try:
            return variable.numbers().tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(self.path, name, "UTF-8", str(error)) from error

    def stored(self, name: str, index: NDArray[np.intp], filler: float) -> StoredTensor:
        """Reads rows of a variable: int8 with the scale of each row, int16 as float32, others as they are."""
        variable = self[name]
        if variable.dtype == "int32":
            raise refusal(self.path, name, "floating point, int8 or int16", variable.dtype)
        if name + "_zero" in self:
            raise refusal(self.path, name + "_zero", "absent: low-bit weights are not read", "present")
        if variable.dtype not in ("int8", "int16"):
            return super().stored(name, index, filler)
        values, scale = (
            self.gathered(name, index, filler),
            Part(name, index).of(self._scale(name, variable), 1),
        )
        if variable.dtype == "int8":
            return StoredTensor(values, "int8", scale)
        return StoredTensor(values * scale.reshape(-1, *[1] * (values.ndim - 1)), "float32")

    def same(self, one: str, other: str) -> bool:
        """See ForeignTensors; the scales of integers must be equal, too."""
        scales = [name + "_scale" for name in (one, other) if name + "_scale" in self]
        return super().same(one, other) and (len(scales) != 1) and (not scales or super().same(*scales))

    def _scale(self, name: str, variable: ForeignTensor) -> NDArray[np.float32]:
        """Returns the factor of each row."""
        known = self.get(name + "_scale")
        if known is None and variable.dtype == "int8":
            raise CheckpointError(f"{self.path}: variable `{name}_scale` is missing")
        count = variable.shape[0] if variable.shape else 1
        divisor = np.full((), _INT16_SCALE_OF_OLD_FILES)
        if known is not None:
            if known.dtype != "float32" or known.shape not in ((), (1,), (count,)):
                raise refusal(self.path, name + "_scale", f"1 or {count} float32 numbers", list(known.shape))
            divisor = known.numbers()
        if not (np.isfinite(divisor).all() and (divisor > 0).all()):
            raise refusal(self.path, name + "_scale", "positive and finite", float(divisor.min()))
        return np.broadcast_to(1 / divisor, count)


def _text(reader: BinaryReader, what: str) -> str:
    """Reads a length of two bytes, then text that ends with a zero byte."""
    content = reader.read(reader.integer(2, what), what)
    if not content or content[-1]:
        raise refusal(reader.path, what, "text that ends with a zero byte", content)
    try:
        return content[:-1].decode("utf-8")
    except UnicodeDecodeError:
        raise refusal(reader.path, what, "UTF-8", content) from None


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
        """
        if file.specification not in _HEADS:
            known = f"one of {', '.join(filter(None, _HEADS))}"
            raise refusal(file.path, "specification", known, file.specification)
        if not 1 <= file.revision <= _NEWEST_REVISION:
            raise refusal(file.path, "revision", f"1 to {_NEWEST_REVISION}", file.revision)
        if file.revision == 1:
            file.rename(_name_since_revision_2)
        self._file, self._epsilon = file, epsilon
        self._depths = {stack: self._depth(stack) for stack in STACKS}
        scopes = [f"{stack}/layer_{layer}" for stack in STACKS for layer in range(self._depths[stack])]
        self._self_attentions = [f"{scope}/self_attention" for scope in scopes]
        cross = [f"{scope}/attention" for scope in scopes if scope.startswith("decoder")]
        self._attentions = [*self._self_attentions, *cross]
        single = "encoder/embeddings"
        source = single if f"{single}/weight" in file else f"{single}_0"
        self._embeddings = {"encoder": source, "decoder": "decoder/embeddings"}
        self._model_dim = file.sizes("decoder/embeddings/weight", 2)[1]
        self._num_heads = self._number_of_stacks("num_heads", _HEADS[file.specification])
        if self._num_heads != int(self._num_heads):
            raise refusal(file.path, "num_heads", "a whole number", self._num_heads)

    @property
    def starts_from_zero(self) -> bool:
        """True if the first decoder input is a zero vector."""
        return bool(self._file.number("decoder/start_from_zero_embedding", 0))

    def config(self, vocabularies: Vocabularies) -> TransformerConfig:
        """Returns the configuration of our network."""
        file = self._file
        biases = [name for name in file if name.endswith("/bias")]
        activation = self._number_of_stacks("activation", 0)
        if activation not in _ACTIVATIONS:
            known = ", ".join(f"{key} ({name})" for key, name in _ACTIVATIONS.items())
            raise refusal(file.path, "activation", f"one of {known}", activation)
        values: dict[str, object] = {
            **vocabularies.config_fields,
            "model_dim": self._model_dim,
            "num_heads": int(self._num_heads),
            "num_encoder_layers": self._depths["encoder"],
            "num_decoder_layers": self._depths["decoder"],
            "ffn_dim": file.sizes("decoder/layer_0/ffn/linear_0/weight", 2)[0],
            "activation": _ACTIVATIONS[int(activation)],
            "gated_ffn": "decoder/layer_0/ffn/linear_0_noact/weight" in file,
            "attention_bias": any("attention/linear" in name for name in biases),
            "ffn_bias": any("/ffn/linear" in name for name in biases),
            "output_bias": "decoder/projection/bias" in file or vocabularies.has_new_targets,
            "scale_embeddings": self._scales_embeddings(),
            "logit_scale": file.number("decoder/scale_outputs", 1),
            "tie": self._tie(vocabularies),
            **self._norms(),
            **self._attention(),
            **self._positions(),
        }
        if value := file.number("decoder/alibi", 0):
            raise refusal(file.path, "decoder/alibi", "0, as these positions cannot be computed", value)
        return network_config(file.path, values)

    def tensors(self, config: TransformerConfig, vocabularies: Vocabularies) -> dict[str, Read]:
        """Returns how to read every parameter, none of which is read before."""
        parts_of = partial(self._parts, config, vocabularies)
        return read_parameters(self._file, config, parts_of, unused=_UNUSED)

    def _parts(
        self, config: TransformerConfig, vocabularies: Vocabularies, parameter: Parameter
    ) -> list[Part]:
        module, rows = parameter.module, None
        name = variable_name(parameter, self._embeddings[parameter.stack])
        if module in ("embedding.tokens", "output"):
            return [vocabularies.part(parameter, name, self._file)]
        if module == "embedding.positions":
            rows = np.arange(config.max_positions)
        elif module in ("attention.query", "attention.key_value", "cross.key_value"):
            rows = self._rows_of_heads(name, module, config)
        return [Part(name, rows, is_optional=parameter.kind == "bias")]

    def _rows_of_heads(self, name: str, module: str, config: TransformerConfig) -> NDArray[np.intp]:
        """Returns the rows of queries, or of keys and values, which self-attention fuses with its queries.

        Rows become those of adjacent pairs if the file's rotations pair the halves of a head, and are
        repeated for the heads that share keys and values in the file.
        """
        is_self, heads, width = module.startswith("attention"), config.num_heads, config.heads_dim
        is_rotary = is_self and config.positions == "rotary"
        is_halved = is_rotary and not self._common("rotary_interleave", 1, self._self_attentions)

        def rows_of(count: int) -> NDArray[np.intp]:
            rows = np.arange(count * config.head_dim).reshape(count, -1)
            return rows.reshape(count, 2, -1).transpose(0, 2, 1).reshape(count, -1) if is_halved else rows

        groups = self._key_value_heads(heads)
        keys, values = rows_of(groups), np.arange(groups * config.head_dim).reshape(groups, -1)
        needed = 2 * keys.size + (width if is_self else 0)
        if name in self._file and (found := self._file[name].shape[0]) != needed:
            raise refusal(self._file.path, name, f"of {needed} rows in this network", found)
        if module == "attention.query":
            return rows_of(heads).reshape(-1)
        both = [np.repeat(each, heads // groups, 0).reshape(-1) for each in (keys, values + keys.size)]
        return np.concatenate(both) + (width if is_self else 0)

    def _key_value_heads(self, heads: int) -> int:
        if self._common("multi_query", 0, self._attentions):
            return 1
        groups = int(self._common("num_heads_kv", heads, self._attentions))
        if groups < 1 or heads % groups:
            raise refusal(self._file.path, "num_heads_kv", f"a divisor of num_heads ({heads})", groups)
        return groups

    def _depth(self, stack: str) -> int:
        depth = 0
        while f"{stack}/layer_{depth}/self_attention/linear_0/weight" in self._file and depth <= _MOST_LAYERS:
            depth += 1
        if not 1 <= depth <= _MOST_LAYERS:
            raise refusal(self._file.path, f"{stack}/layer", f"1 to {_MOST_LAYERS} layers", depth)
        return depth

    def _common(self, name: str, default: float, scopes: Sequence[str]) -> float:
        """Returns a number that several scopes have in common, such as all attentions."""
        numbers = [self._file.number(f"{scope}/{name}", default) for scope in scopes]
        for scope, number in zip(scopes, numbers, strict=True):
            if number != numbers[0]:
                needed = f"that of {scopes[0]} ({numbers[0]})"
                raise refusal(self._file.path, f"{scope}/{name}", needed, number)
        return numbers[0]

    def _number_of_stacks(self, name: str, default: float) -> float:
        return self._common(name, self._file.number(name, default), STACKS)

    def _both_have(self, name: str) -> bool:
        encoder, decoder = (f"{stack}/{name}" in self._file for stack in STACKS)
        if encoder != decoder:
            raise refusal(self._file.path, f"decoder/{name}", f"the encoder's ({encoder})", decoder)
        return encoder

    def _norms(self) -> dict[str, object]:
        gains = [name for name in self._file if name.endswith("/gamma")]
        shifted = [name.removesuffix("gamma") + "beta" in self._file for name in gains]
        if any(shifted) != all(shifted):
            name = gains[shifted.index(not shifted[0])]
            raise refusal(self._file.path, name, "a norm of the same kind as the others", "another")
        is_shifted = all(shifted)
        return {
            "norm_position": "pre" if self._number_of_stacks("pre_norm", 1) else "post",
            "norm_form": "variance" if is_shifted else "root_mean_square",
            "norm_bias": is_shifted,
            "norm_epsilon": self._epsilon if self._epsilon is not None else 1e-5 if is_shifted else 1e-6,
            "final_norm": self._both_have("layer_norm/gamma"),
            "embedding_norm": self._both_have("layernorm_embedding/gamma"),
        }

    def _attention(self) -> dict[str, object]:
        model_dim, width = self._file.sizes("decoder/layer_0/self_attention/linear_1/weight", 2)
        heads = max(int(self._num_heads), 1)
        head_dim = self._common("head_dim", model_dim // heads, self._attentions)
        scale = self._common("queries_scale", 1 / math.sqrt(max(head_dim, 1)), self._attentions)
        usual = 1 / math.sqrt(max(width // heads, 1))
        return {
            "attention_dim": None if width == model_dim else width,
            "attention_scale": None if math.isclose(scale, usual, rel_tol=1e-6) else scale,
        }

    def _positions(self) -> dict[str, object]:
        first = "layer_0/self_attention"
        if self._both_have(f"{first}/rotary_dim"):
            return self._rotary_positions()
        if self._both_have(f"{first}/relative_attention_bias"):
            return self._relative_positions()
        if self._both_have(f"{first}/relative_position_keys"):
            return self._relative_vectors()
        return self._added_positions()

    def _rotary_positions(self) -> dict[str, object]:
        width = self._file.sizes("decoder/layer_0/self_attention/linear_1/weight", 2)[1]
        head_dim = width // max(int(self._num_heads), 1)
        for name, usual in (("rotary_base", _ROTARY_BASE), ("rotary_scaling_type", -1)):
            if (value := self._common(name, usual, self._self_attentions)) != usual:
                raise refusal(self._file.path, name, f"{usual:g}", value)
        if (turned := self._common("rotary_dim", 0, self._self_attentions)) not in (0, head_dim):
            raise refusal(self._file.path, "rotary_dim", f"0 or {head_dim}, the width of a head", turned)
        return {"positions": "rotary", "max_positions": _UNBOUNDED_POSITIONS}

    def _relative_positions(self) -> dict[str, object]:
        for scope in self._self_attentions:
            own, first = (f"{each}/relative_attention_bias" for each in (scope, _first_layer(scope)))
            if own in self._file and not self._file.same(own, first):
                raise refusal(self._file.path, own, "that of the first layer", "another")
        distance = self._common("relative_attention_max_distance", 128, self._self_attentions)
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
        if not self._both_have(_ENCODINGS):
            formula = {"sinusoid_layout": "halves", "sinusoid_offset": 1, "sinusoid_endpoint": True}
            return {"positions": "sinusoidal", "max_positions": _UNBOUNDED_POSITIONS} | formula
        names = [f"{stack}/{_ENCODINGS}" for stack in STACKS]
        rows = np.arange(min(self._file.sizes(name, 2)[0] for name in names))
        return table_positions([self._file.read(Part(name, rows))().floats() for name in names])

    def _scales_embeddings(self) -> bool:
        """Returns whether embeddings are multiplied by sqrt(d): a flag in old files, the factor in others."""
        root = math.sqrt(self._model_dim)

        def factor(stack: str) -> float:
            old = f"{self._embeddings[stack]}/multiply_by_sqrt_depth"
            name = next((each for each in (f"{stack}/scale_embeddings", old) if each in self._file), None)
            value = self._file.number(name, 1) if name else 1.0
            if name is None or self._file[name].dtype == "int8":
                return root if value else 1.0
            return root if math.isclose(value, root, rel_tol=1e-3) else value

        encoder, decoder = map(factor, STACKS)
        if encoder != decoder or encoder not in (1.0, root):
            requirement = f"1 or {root:g} on both sides"
            raise refusal(self._file.path, "scale_embeddings", requirement, [encoder, decoder])
        return encoder != 1.0 or self._model_dim == 1

    def _tie(self, vocabularies: Vocabularies) -> str:
        """Returns how matrices are tied, which must have a row for each piece, and at most that of <unk>."""
        names = [f"{self._embeddings[stack]}/weight" for stack in STACKS] + ["decoder/projection/weight"]
        sides = (vocabularies.source, vocabularies.target, vocabularies.target)
        for name, vocabulary in zip(names, sides, strict=True):
            rows = self._file.sizes(name, 2)[0]
            if rows not in (vocabulary.listed, vocabulary.known):
                needed = f"of {vocabulary.listed} rows, as the vocabulary has pieces"
                raise refusal(self._file.path, name, needed, rows)
        return find_tie(self._file, *names, can_share=vocabularies.are_shared)


def _first_layer(scope: str) -> str:
    """Returns a scope of the first layer in the place of that of another one."""
    stack, _, attention = scope.split("/")
    return f"{stack}/layer_0/{attention}"


def _name_since_revision_2(name: str) -> str:
    for old, new in _NAMES_OF_REVISION_1.items():
        name = name.replace(old, new, 1)
    if "encoder" in name:
        return name.replace("multi_head", "self_attention", 1)
    return name.replace("masked_multi_head", "self_attention", 1).replace("multi_head", "attention", 1)
