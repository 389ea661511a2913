"""Which tensors of a foreign model make up our parameters: a table for each format, read in one way.

A table has the names of a format by our modules. A name holds `{stack}` (encoder or decoder), `{layer}` from
0, `{number}` from 1 and `{kind}` (weight or bias); several names are tensors one below the other, such as
keys above values:

    "attention.key_value": ("{stack}.{layer}.k_proj.{kind}", "{stack}.{layer}.v_proj.{kind}")

`read_parameters` does the rest: shapes, missing biases, and the check that no tensor is left over.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.importing.reader import refusal
from model.checkpoint.importing.tensors import ForeignTensors, Part
from model.checkpoint.weights import StoredTensor
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.network.parameters import Shape, parameter_names, parameter_shapes

Table = Mapping[str, str | Sequence[str]]
_PARAMETER = re.compile(
    r"((?P<stack>encoder|decoder)|(?P<side>source|target)_embedding|output)"
    r"(\.layers\.(?P<layer>\d+))?(\.(?P<module>[\w.]+))?\.(?P<kind>weight|bias)"
)
_TIES = {(True, True): "all", (True, False): "embeddings", (False, True): "decoder", (False, False): "none"}
_MOST_OFFSET = 3
_TABLE_TOLERANCE = 0.005  # bfloat16 rounds to 8 bits


@dataclass(frozen=True)
class Parameter:
    """A parameter of our network.

    Attributes:
        stack: `encoder` or `decoder`; the source embedding is the encoder's, the output the decoder's.
        layer: Number of the layer, from 0; 0 outside of layers.
        module: Name within the stack or layer: `attention.query`, `embedding.tokens`, `output`, `norm`.
        kind: `weight` or `bias`.
    """

    stack: str
    layer: int
    module: str
    kind: str

    @classmethod
    def of(cls, name: str) -> "Parameter":
        """Returns the parameter of a name of `model.network.parameters`."""
        match = _PARAMETER.fullmatch(name)
        if match is None:
            raise ValueError(f"{name} is no parameter")
        stack = match["stack"] or ("encoder" if match["side"] == "source" else "decoder")
        scope = "embedding" if match["side"] else "" if match["stack"] else "output"
        module = ".".join(filter(None, (scope, match["module"])))
        return cls(stack, int(match["layer"] or 0), module, match["kind"])

    def names(self, table: Table, **words: str) -> list[str]:
        """Returns the names of its tensors in a format; `words` are further words, or replace the known."""
        known = {"stack": self.stack, "layer": self.layer, "number": self.layer + 1, "kind": self.kind}
        found = table[self.module]
        names = [found] if isinstance(found, str) else found
        return [name.format(**known | words) for name in names]


def in_layers(template: str, layer: Table) -> Table:
    """Returns a table of whole names from a template and what stands for `{name}` in it."""
    names = {ours: [theirs] if isinstance(theirs, str) else theirs for ours, theirs in layer.items()}
    return {ours: [template.replace("{name}", name) for name in theirs] for ours, theirs in names.items()}


def read_parameters(
    tensors: ForeignTensors,
    config: TransformerConfig,
    parts_of: Callable[[Parameter], Sequence[Part]],
    *,
    unused: re.Pattern[str],
) -> dict[str, Read]:
    """Returns how to read every parameter, tied ones once; none is read before.

    Args:
        tensors: The model's tensors.
        config: Our network.
        parts_of: Returns the parts that make up a parameter, one below the other.
        unused: Names of tensors that may be left over.
    """
    reads: dict[str, Read] = {}
    used: set[str] = set()
    shapes = parameter_shapes(config)
    for name in parameter_names(config):
        parts = parts_of(Parameter.of(name))
        used |= {part.name for part in parts if part.name in tensors}
        if name in shapes:
            reads[name] = _reading(tensors, shapes[name], parts)
    known = {tensors[name] for name in used}
    for name, tensor in tensors.items():
        if tensor not in known and not unused.fullmatch(name):
            where = f"{tensors.path}: tensor {name!r}"
            raise CheckpointError(f"{where} is not part of a network that we can compute")
    return reads


def _reading(tensors: ForeignTensors, shape: Shape, parts: Sequence[Part]) -> Read:
    if all(part.is_optional and part.name not in tensors for part in parts):
        values = np.zeros(shape, np.float32)
        if parts[0].rows is not None:
            values[parts[0].rows < 0] = parts[0].filler
        return partial(StoredTensor, values, "float32")
    rows = shape[0] // len(parts)
    for part in parts:
        if (found := tensors.shape(part)) != (needed := (rows, *shape[1:])):
            shapes = f"must have shape {list(needed)} in this network, but has {list(found)} instead"
            raise CheckpointError(f"{tensors.path}: tensor {part.name!r} {shapes}")
        if len(shape) == 1 and tensors[part.name].dtype == "int8":
            raise refusal(tensors.path, part.name, "floating point", "int8")
    reads = [tensors.read(part) for part in parts]
    if len(reads) == 1:
        return reads[0]
    return partial(_stacked, reads)


def _stacked(reads: Sequence[Read]) -> StoredTensor:
    tensors = [read() for read in reads]
    scales = [tensor.scale for tensor in tensors if tensor.scale is not None]
    values = np.concatenate([tensor.values for tensor in tensors])
    return StoredTensor(values, tensors[0].dtype, np.concatenate(scales) if scales else None)


def find_tie(
    tensors: ForeignTensors, source: str, target: str, output: str, *, can_share: bool = True
) -> str:
    """Returns `tie` of a network: tensors are tied if they are equal.

    Args:
        tensors: The model's tensors.
        source: Name of the source embedding.
        target: Name of the target embedding.
        output: Name of the output matrix.
        can_share: Whether ids mean the same on both sides.
    """
    return _TIES[can_share and tensors.same(source, target), tensors.same(target, output)]


def table_positions(tables: Sequence[NDArray[np.float32]]) -> dict[str, object]:
    """Returns the positions of a network by the tables of both sides, (positions, width).

    A table of sinusoids becomes the formula that makes it, another one is learned.
    """
    longest = min(map(len, tables))
    formulas = [_sinusoid_formula(table[:longest]) for table in tables]
    if formulas[0] == formulas[1] and formulas[0] is not None:
        return {"positions": "sinusoidal", "max_positions": longest} | formulas[0]
    return {"positions": "learned", "max_positions": longest}


def _sinusoid_formula(table: NDArray[np.float32]) -> dict[str, object] | None:
    """Returns the configuration whose sinusoids make a table; None if they are of no known kind."""
    count, width = table.shape
    if width < 4 or width % 2:
        return None
    errors = {}
    for endpoint, offset in product((False, True), range(_MOST_OFFSET + 1)):
        rates = 10000.0 ** (-np.arange(width // 2) / (width / 2 - endpoint))
        angles = (np.arange(count)[:, None] + offset) * rates
        pairs = np.stack([np.sin(angles), np.cos(angles)])  # (2, T, M/2)
        ours = {"halves": pairs.transpose(1, 0, 2), "interleaved": pairs.transpose(1, 2, 0)}
        for layout, values in ours.items():
            error = np.abs(values.reshape(count, width) - table).max()
            errors[layout, offset, endpoint] = float(error)
    best = min(errors, key=errors.__getitem__)
    names = ("sinusoid_layout", "sinusoid_offset", "sinusoid_endpoint")
    return dict(zip(names, best, strict=True)) if errors[best] < _TABLE_TOLERANCE else None
