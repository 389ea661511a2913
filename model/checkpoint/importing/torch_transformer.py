"""ⓕ State dicts of `torch.nn.Transformer` with vocabularies beside them, such as secryst's.

The folder holds one `.pt`, `.pth` or `.safetensors` file, and the pieces of both sides as JSON: a list, ids
by piece, or how often each piece occurs, as torchtext counted them. These are `source.vocabulary.json` and
`target.vocabulary.json`, or `vocabulary.json` for both, or secryst's `input_vocab.json` and
`target_vocab.json`. Pieces that are more than single characters need SentencePiece models, `source.model`
and `target.model` or `tokenizer.model`. What a state dict does not say stands in `transformer.json`
(Description).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from model.checkpoint.card import Pair
from model.checkpoint.importing.ctranslate2 import card_name
from model.checkpoint.importing.ctranslate2.network import Vocabulary, sinusoid_formula
from model.checkpoint.importing.ctranslate2.tokenizer import kind_of_pieces, tokenizer_files
from model.checkpoint.importing.ctranslate2.vocabulary import SpecialTokens, arrange, read_json
from model.checkpoint.importing.foreign import (
    ForeignModel,
    changed,
    checksums,
    constant,
    read_object,
    refusal,
)
from model.checkpoint.importing.hugging_face.languages import Readme, chosen_pairs
from model.checkpoint.importing.hugging_face.weights import ForeignWeights
from model.checkpoint.weights import StoredTensor
from model.checkpoint.writing import Read
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError
from model.network.parameters import parameter_shapes
from model.text.language_codes import is_language_code
from model.text.tokenizer import SHARED_VOCABULARY, SOURCE_VOCABULARY, TARGET_VOCABULARY, TokenizerSettings

DESCRIPTION = "transformer.json"
_WEIGHTS = (".pt", ".pth", ".safetensors")
_SOURCES = (SOURCE_VOCABULARY, "source_vocabulary.json", "input_vocab.json", "src_vocab.json")
_TARGETS = (TARGET_VOCABULARY, "target_vocabulary.json", "target_vocab.json", "tgt_vocab.json")
_SHARED = (SHARED_VOCABULARY,)
_CONFIG = "config.json"  # our own folders and those of Hugging Face have one
_COUNTED_SPECIALS = ("<unk>", "<pad>", "<sos>", "<eos>")
_ROLES = {
    "unk": ("<unk>", "[UNK]"),
    "bos": ("<sos>", "<bos>", "<s>", "[CLS]"),
    "eos": ("<eos>", "</s>", "[SEP]"),
}
_LAYER = re.compile(r"(?P<prefix>.*?)(?P<stack>encoder|decoder)\.(?P<list>layers\.|layer)0\.linear1\.weight")
_PARAMETER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(\w+)\.(?:(\w+)\.)?(weight|bias)")
_SIDES = {
    "source_embedding": re.compile(r"(^|[._])(src|source|enc|encoder|input|in)([._]|$)"),
    "target_embedding": re.compile(r"(^|[._])(tgt|trg|target|dec|decoder|output|out)([._]|$)"),
}
_ATTENTIONS = {"attention": "self_attn", "cross": "multihead_attn"}
_POSITIONS = 512
_NEVER = -10000.0


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `transformer.json` says of a model; the defaults are those of `torch.nn.Transformer`.

    Attributes:
        num_heads: `nhead`.
        norm_first: As there.
        activation: `relu` or `gelu`.
        layer_norm_eps: As there.
        scale_embeddings: Whether embeddings are multiplied by sqrt(d_model), as in PyTorch's tutorial.
        names: The tensors around the Transformer, if their names do not tell: `source_embedding`,
            `target_embedding`, `output` (without `.weight`), `positions`.
        tokens: Pieces with a role: `unk`, `pad`, `bos`, `eos`.
        source_begin: Pieces before those of a source; None is BOS.
        source_end: Pieces after them; None is EOS.
        pairs: Translation directions.
    """

    num_heads: int = 8
    norm_first: bool = False
    activation: str = "relu"
    layer_norm_eps: float = 1e-5
    scale_embeddings: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    source_begin: Sequence[str] | None = None
    source_end: Sequence[str] | None = None
    pairs: Sequence[Sequence[str]] = ()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads the file of a folder; without one, everything is as by default.

        Raises:
            CheckpointError: If a value is unknown or of a wrong type.
        """
        path = folder / DESCRIPTION
        values = read_object(path) if path.is_file() else {}
        types = {"num_heads": int, "norm_first": bool, "activation": str, "layer_norm_eps": float}
        types |= {"scale_embeddings": bool, "names": dict, "tokens": dict}
        types |= {"source_begin": list, "source_end": list, "pairs": list}
        for name, value in values.items():
            if name not in types:
                raise refusal(path, name, f"one of {', '.join(each.name for each in fields(cls))}", value)
            is_flag = isinstance(value, bool)
            if not isinstance(value, types[name]) or is_flag != (types[name] is bool):
                raise refusal(path, name, f"of type {types[name].__name__}", value)
            texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if name != "pairs" and not all(isinstance(each, str) for each in texts):
                raise refusal(path, name, "of texts", value)
        return cls(**values)  # type: ignore[arg-type]

    def directions(self, folder: Path) -> list[Pair]:
        """Returns the translation directions.

        Raises:
            CheckpointError: If they are not pairs of language codes.
        """
        for pair in self.pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not all(map(is_language_code, pair)):
                raise refusal(folder / DESCRIPTION, "pairs", "pairs of language codes", pair)
        return [(source, target) for source, target in self.pairs]


def recognises(path: Path) -> bool:
    """Returns whether a folder, or that of a file, holds a state dict and vocabularies."""
    folder = path if path.is_dir() else path.parent
    is_state = (path.is_dir() or path.suffix in _WEIGHTS) and not (folder / _CONFIG).exists()
    return is_state and bool(_state_dicts(folder)) and _vocabulary_file(folder, _SOURCES) is not None


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a state dict.

    Raises:
        CheckpointError: If it is broken, or not that of a `torch.nn.Transformer`; the message names file and
            field.
    """
    folder = path if path.is_dir() else path.parent
    states = _state_dicts(folder) if path.is_dir() else [path]
    if len(states) != 1:
        found = ", ".join(state.name for state in states) or "none"
        raise CheckpointError(f"{folder} must hold one state dict, but has {found}: import the file itself")
    description = Description.load(folder)
    weights = ForeignWeights(folder, states[0])
    state = _State(states[0], weights, description)
    files = [_vocabulary_file(folder, names) for names in (_SOURCES, _TARGETS)]
    if files[0] is None or files[1] is None:
        raise CheckpointError(f"{folder} must hold {SOURCE_VOCABULARY} and {TARGET_VOCABULARY}")
    rows = [weights.shape(state.names[side])[0] for side in _SIDES]
    source = _pieces(files[0], rows[0])
    target = source if files[0] == files[1] else _pieces(files[1], rows[1])
    tokens = _tokens(folder, description, target)
    vocabularies = arrange(
        source, target, tokens, starts_from_zero=False, where=folder, pad=description.tokens.get("pad")
    )
    config = state.config(vocabularies.source, vocabularies.target, vocabularies.special_ids)
    models = tokenizer_files(folder)
    sides = vocabularies.source.pieces, vocabularies.target.pieces
    names = [SHARED_VOCABULARY] * 2 if sides[0] is sides[1] else [SOURCE_VOCABULARY, TARGET_VOCABULARY]
    settings = TokenizerSettings(
        special_ids={role: vocabularies.special_ids[f"{role}_id"] for role in ("pad", "bos", "eos", "unk")},
        source_begin=[tokens.bos] if description.source_begin is None else description.source_begin,
        source_end=[tokens.eos] if description.source_end is None else description.source_end,
        prepare="none",
        pieces=kind_of_pieces(folder, models, vocabularies.source.pieces),
    )
    described = [folder / DESCRIPTION] if (folder / DESCRIPTION).is_file() else []
    return ForeignModel(
        config=config,
        tensors=state.tensors(config, vocabularies.source, vocabularies.target),
        settings=settings,
        tokenizer_models=models,
        vocabularies=dict(zip(names, sides, strict=True)),
        name=card_name(folder.resolve().name),
        pairs=chosen_pairs(folder, description.directions(folder), pair),
        max_source_length=min(config.max_positions, _POSITIONS),
        max_target_length=min(config.max_positions, _POSITIONS),
        decoding={"strategy": "greedy", "suppress_ids": list(vocabularies.suppressed)},
        licence=Readme.read(folder).licence,
        origin={"files": checksums({*states, files[0], files[1], *models.values(), *described})},
    )


class _State:
    """The tensors of a state dict, by their roles."""

    def __init__(self, path: Path, weights: ForeignWeights, description: Description) -> None:
        self._path, self._weights, self._description = path, weights, description
        layer = next(filter(None, map(_LAYER.fullmatch, weights)), None)
        if layer is None:
            raise CheckpointError(f"{path}: tensor 'encoder.layers.0.linear1.weight' is missing")
        self._prefix, self._list = layer["prefix"], layer["list"]
        self._model_dim = self._shape(layer[0], 2)[1]
        self.names = self._roles()

    def config(
        self, source: Vocabulary, target: Vocabulary, special_ids: Mapping[str, int]
    ) -> TransformerConfig:
        """Returns the configuration of our network."""
        described, first = self._description, f"{self._prefix}encoder.{self._list}0."
        values: dict[str, object] = {
            "source_vocab_size": len(source.pieces),
            "target_vocab_size": len(target.pieces),
            "model_dim": self._model_dim,
            "num_heads": described.num_heads,
            "num_encoder_layers": self._depth("encoder"),
            "num_decoder_layers": self._depth("decoder"),
            "ffn_dim": self._shape(first + "linear1.weight", 2)[0],
            "activation": described.activation,
            "norm_position": "pre" if described.norm_first else "post",
            "norm_epsilon": described.layer_norm_eps,
            "norm_bias": first + "norm1.bias" in self._weights,
            "final_norm": self._has_final_norm(),
            "attention_bias": first + "self_attn.in_proj_bias" in self._weights,
            "ffn_bias": first + "linear1.bias" in self._weights,
            "output_bias": self._bias() is not None or target.known < len(target.pieces),
            "scale_embeddings": described.scale_embeddings,
            "tie": self._tie(source, target),
            **self._positions(),
            **special_ids,
        }
        if described.activation not in ("relu", "gelu"):
            raise refusal(self._path.parent / DESCRIPTION, "activation", "relu or gelu", described.activation)
        try:
            return TransformerConfig.from_dict(values)
        except ConfigError as error:
            raise CheckpointError(f"{self._path}: {error}") from error

    def tensors(self, config: TransformerConfig, source: Vocabulary, target: Vocabulary) -> dict[str, Read]:
        """Returns how to read every parameter.

        Raises:
            CheckpointError: If a tensor is missing, of another shape, or left over.
        """
        used = {*self.names.values(), *filter(None, map(self._table, _SIDES))}
        reads: dict[str, Read] = {}
        for name, shape in parameter_shapes(config).items():
            if name == "output.bias" and self._bias() is None:
                reads[name] = constant(_filled(np.zeros(target.known, np.float32), target, _NEVER))
                continue
            theirs, change, count = self._part(name, config, source, target)
            used.add(theirs)
            found = self._weights.shape(theirs)
            is_table = name.endswith("positions.weight")
            if not is_table and (found[1:] != shape[1:] or found[0] < count):
                needed = [count, *shape[1:]]
                raise refusal(self._path, theirs, f"of shape {needed} in this network", list(found))
            reads[name] = changed(self._weights.read(theirs), change)
            if name == "output.bias":
                reads[name] = _with_rows(self._weights.read(theirs), target)
        for name in self._weights:
            if name not in used:
                raise CheckpointError(f"{self._path}: tensor {name!r} is not part of a torch.nn.Transformer")
        return reads

    def _part(
        self, name: str, config: TransformerConfig, source: Vocabulary, target: Vocabulary
    ) -> tuple[str, Callable[[NDArray[Any]], NDArray[Any]], int]:
        """Returns the tensor that holds a parameter of ours, how to take it from there, and rows it needs."""
        width = config.model_dim
        layer = _PARAMETER.fullmatch(name)
        if layer:
            return self._part_of_layer(config, *layer.groups())
        side, _, rest = name.partition(".")
        if rest == "tokens.weight" or side == "output":
            vocabulary = source if side == "source_embedding" else target
            theirs = self._bias() if name == "output.bias" else self.names[side]
            return theirs or "", lambda values: _filled(values, vocabulary, 0), vocabulary.known
        if rest == "positions.weight":
            return self._table(side) or "", lambda values: _as_table(values)[: config.max_positions], 0
        return f"{self._prefix}{side}.{rest}", _whole, width

    def _part_of_layer(
        self, config: TransformerConfig, stack: str, number: str, block: str, inner: str, kind: str
    ) -> tuple[str, Callable[[NDArray[Any]], NDArray[Any]], int]:
        scope, width = f"{self._prefix}{stack}.{self._list}{number}.", config.model_dim
        if block == "feed_forward":
            name, rows = ("linear1", config.ffn_dim) if inner == "input" else ("linear2", width)
            return f"{scope}{name}.{kind}", _whole, rows
        if block.endswith("_residual"):
            order = (
                ["attention", "cross", "feed_forward"]
                if stack == "decoder"
                else ["attention", "feed_forward"]
            )
            return f"{scope}norm{order.index(block.removesuffix('_residual')) + 1}.{kind}", _whole, width
        theirs = scope + _ATTENTIONS[block]
        if inner == "output":
            return f"{theirs}.out_proj.{kind}", _whole, width
        rows_of = slice(width) if inner == "query" else slice(width, None)
        return f"{theirs}.in_proj_{kind}", lambda values: values[rows_of], 3 * width

    def _shape(self, name: str, dimensions: int) -> tuple[int, ...]:
        shape = self._weights.shape(name)
        if len(shape) != dimensions or not all(shape):
            raise refusal(self._path, name, f"of {dimensions} dimensions, none of them 0", list(shape))
        return shape

    def _depth(self, stack: str) -> int:
        depth = 0
        while f"{self._prefix}{stack}.{self._list}{depth}.linear1.weight" in self._weights:
            depth += 1
        return depth

    def _has_final_norm(self) -> bool:
        has = [f"{self._prefix}{stack}.norm.weight" in self._weights for stack in ("encoder", "decoder")]
        if has[0] != has[1]:
            name = f"{self._prefix}{'decoder' if has[0] else 'encoder'}.norm.weight"
            raise CheckpointError(f"{self._path}: tensor {name!r} is missing")
        return has[0]

    def _roles(self) -> dict[str, str]:
        """Returns the names of both embeddings and of the output projection."""
        path, given = self._path.parent / DESCRIPTION, self._description.names
        for role in given:
            if role not in (*_SIDES, "output", "positions"):
                raise refusal(path, "names", f"of {', '.join([*_SIDES, 'output', 'positions'])}", role)
        known = {
            role: f"{name.removesuffix('.weight')}.weight"
            for role, name in given.items()
            if role != "positions"
        }
        layers = tuple(f"{self._prefix}{stack}.{self._list}" for stack in ("encoder", "decoder"))
        matrices = [
            name
            for name in self._weights
            if not name.startswith(layers)
            and self._is_matrix(name)
            and "pos" not in name
            and name not in known.values()
        ]
        embeddings = [name for name in matrices if "emb" in name or "tok" in name]
        roles = {}
        for role, side in _SIDES.items():
            found = embeddings if len(embeddings) == 1 else [name for name in embeddings if side.search(name)]
            roles[role] = known.get(role) or self._only(role, found)
        others = [name for name in matrices if name not in embeddings]
        output = known.get("output") or self._only("output", others or [roles["target_embedding"]])
        return {**roles, "output": output}

    def _only(self, role: str, names: Sequence[str]) -> str:
        if len(names) != 1:
            choices = ", ".join(names) or "any"
            where = f"{self._path.parent / DESCRIPTION}: `names`"
            raise CheckpointError(f"{where} must tell `{role}`, which may be {choices}")
        return names[0]

    def _is_matrix(self, name: str) -> bool:
        shape = self._weights.shape(name)
        return len(shape) == 2 and shape[1] == self._model_dim

    def _bias(self) -> str | None:
        name = f"{self.names['output'].removesuffix('weight')}bias"
        return name if name in self._weights else None

    def _tie(self, source: Vocabulary, target: Vocabulary) -> str:
        names = [self.names[role] for role in (*_SIDES, "output")]
        can_share = source.rows == target.rows and len(source.pieces) == len(target.pieces)
        shares_embeddings = can_share and self._weights.same(names[0], names[1])
        shares_output = self._weights.same(names[1], names[2])
        choices = {(True, True): "all", (True, False): "embeddings", (False, True): "decoder"}
        return choices.get((shares_embeddings, shares_output), "none")

    def _table(self, side: str) -> str | None:
        """Returns the tensor with the positions of a side; None if the state dict has none."""
        given = self._description.names.get("positions")
        if given:
            return given
        used = (f"{self._prefix}encoder.{self._list}", f"{self._prefix}decoder.{self._list}")
        names = [name for name in self._weights if "pos" in name or name.endswith("pe")]
        names = [name for name in names if not name.startswith(used) and name not in self.names.values()]
        own = [name for name in names if _SIDES[side].search(name)]
        return self._only("positions", own or names) if names else None

    def _positions(self) -> dict[str, object]:
        """A table of sinusoids becomes the formula that makes it, another one is learned."""
        tables = [self._table(side) for side in _SIDES]
        if tables[0] is None or tables[1] is None:
            return {"positions": "sinusoidal", "max_positions": _POSITIONS}
        read = [_as_table(self._weights.read(name)().floats()) for name in (tables[0], tables[1])]
        longest = min(map(len, read))
        formulas = [sinusoid_formula(table[:_POSITIONS]) for table in read]
        if formulas[0] == formulas[1] and formulas[0] is not None:
            return {"positions": "sinusoidal", "max_positions": longest} | formulas[0]
        return {"positions": "learned", "max_positions": longest}


def _with_rows(read: Read, target: Vocabulary) -> Read:
    """Returns a reading of the output's bias that rules out the tokens which the state dict lacks."""
    return lambda: StoredTensor(_filled(read().floats(), target, _NEVER), "float32")


def _state_dicts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS and path.is_file())


def _vocabulary_file(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in (*names, *_SHARED) if (folder / name).is_file()), None)


def _pieces(path: Path, rows: int) -> list[str]:
    """Returns the piece of every id, for an embedding of so many rows."""
    content: Any = read_json(path)
    if isinstance(content, dict) and all(isinstance(value, int) for value in content.values()):
        ids = sorted(content, key=content.__getitem__)
        if sorted(content.values()) == list(range(rows)):
            return ids
        # As torchtext orders what it has counted: special pieces, then by count, then by piece.
        counted = sorted(content, key=lambda piece: (-content[piece], piece))
        content = [*_COUNTED_SPECIALS, *counted]
    if not isinstance(content, list) or not all(isinstance(piece, str) for piece in content):
        raise refusal(
            path,
            "vocabulary",
            "a list of pieces, or an object of their ids or counts",
            type(content).__name__,
        )
    if len(content) != rows:
        raise refusal(path, "vocabulary", f"of {rows} pieces, as the embedding has rows", len(content))
    return content


def _tokens(folder: Path, description: Description, target: Sequence[str]) -> SpecialTokens:
    known = set(target)
    found = {}
    for role, names in _ROLES.items():
        given = description.tokens.get(role)
        choice = given or next((name for name in names if name in known), names[0])
        if choice not in known:
            raise refusal(folder / DESCRIPTION, f"tokens.{role}", "a piece of the target vocabulary", choice)
        found[role] = choice
    return SpecialTokens(**found, start=found["bos"])


def _filled(values: NDArray[Any], vocabulary: Vocabulary, filler: float) -> NDArray[Any]:
    """Returns the rows of a vocabulary in its order; those that the state dict lacks have the filler."""
    known, size = vocabulary.known, len(vocabulary.pieces)
    if known == size and not vocabulary.swaps:
        return values[:known]
    rows = np.full((size, *values.shape[1:]), filler, values.dtype)
    rows[:known] = values[:known]
    return vocabulary.rows.arranged(rows)


def _as_table(values: NDArray[Any]) -> NDArray[Any]:
    """Returns (positions, width) of a table with a dimension of 1 for the batch."""
    return values.reshape(-1, values.shape[-1])


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    return values
