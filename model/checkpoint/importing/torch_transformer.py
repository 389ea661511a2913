"""ⓕ State dicts of `torch.nn.Transformer` with vocabularies beside them, such as secryst's.

The folder holds one `.pt`, `.pth` or `.safetensors` file, and the pieces of both sides as JSON: a list, ids
by piece, or how often each piece occurs, as torchtext counted them. These are `source.vocabulary.json` and
`target.vocabulary.json`, or `vocabulary.json` for both, or secryst's `input_vocab.json` and
`target_vocab.json`. Pieces that are more than single characters need SentencePiece models, `source.model`
and `target.model` or `tokenizer.model`. What a state dict does not say stands in `transformer.json`
(Description).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from model.checkpoint.card import Pair
from model.checkpoint.importing.ctranslate2.network import NORM_NAMES, STACKS, TABLE, Network
from model.checkpoint.importing.ctranslate2.tokenizer import kind_of_pieces, tokenizer_files
from model.checkpoint.importing.ctranslate2.vocabulary import SpecialTokens, arrange
from model.checkpoint.importing.foreign import (
    ForeignModel,
    ForeignText,
    card_name,
    checksums,
    read_json,
    read_object,
    refusal,
)
from model.checkpoint.importing.hugging_face.languages import Readme, chosen_pairs
from model.checkpoint.importing.hugging_face.weights import ForeignWeights
from model.checkpoint.importing.variables import Variable, Variables
from model.errors import CheckpointError
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
_SIDES = {
    "source_embedding": re.compile(r"(^|[._])(src|source|enc|encoder|input|in)([._]|$)"),
    "target_embedding": re.compile(r"(^|[._])(tgt|trg|target|dec|decoder|output|out)([._]|$)"),
}
_ACTIVATIONS = {"relu": 0, "gelu": 3}
_ENCODER_LAYER = {
    "self_attention/linear_0": "self_attn.in_proj_",
    "self_attention/linear_1": "self_attn.out_proj.",
    "self_attention/layer_norm": "norm1.",
    "ffn/linear_0": "linear1.",
    "ffn/linear_1": "linear2.",
    "ffn/layer_norm": "norm2.",
}
"""The tensors of a layer by CTranslate2's names, up to `weight` and `bias`."""
_DECODER_LAYER = {
    **_ENCODER_LAYER,
    "attention/linear_0": "multihead_attn.in_proj_",
    "attention/linear_1": "multihead_attn.in_proj_",
    "attention/linear_2": "multihead_attn.out_proj.",
    "attention/layer_norm": "norm2.",
    "ffn/layer_norm": "norm3.",
}
_POSITIONS = 512


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
            if name == "activation" and value not in _ACTIVATIONS:
                raise refusal(path, name, " or ".join(_ACTIVATIONS), value)
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
    rows = state.vocabulary_sizes()
    source = _pieces(files[0], rows[0])
    target = source if files[0] == files[1] else _pieces(files[1], rows[1])
    tokens = _tokens(folder, description, target)
    vocabularies = arrange(
        source, target, tokens, starts_from_zero=False, where=folder, pad=description.tokens.get("pad")
    )
    network = _Network(state, description)
    config = network.config(vocabularies.source, vocabularies.target, vocabularies.special_ids)
    models = tokenizer_files(folder)
    text = ForeignText(
        settings=TokenizerSettings(
            special_ids=vocabularies.token_ids,
            source_begin=[tokens.bos] if description.source_begin is None else description.source_begin,
            source_end=[tokens.eos] if description.source_end is None else description.source_end,
            prepare="none",
            pieces=kind_of_pieces(folder, models, vocabularies.source.pieces),
        ),
        models=models,
        vocabularies=vocabularies.lists,
        pairs=chosen_pairs(folder, description.directions(folder), pair),
    )
    described = [folder / DESCRIPTION] if (folder / DESCRIPTION).is_file() else []
    return ForeignModel(
        config=config,
        tensors=network.tensors(config, vocabularies.source, vocabularies.target),
        text=text,
        name=card_name(folder.resolve().name, default="transformer"),
        max_source_length=min(config.max_positions, _POSITIONS),
        max_target_length=min(config.max_positions, _POSITIONS),
        decoding={"strategy": "greedy", "suppress_ids": list(vocabularies.suppressed)},
        licence=Readme.read(folder).licence,
        origin={"files": checksums({*states, files[0], files[1], *models.values(), *described})},
    )


class _State(Variables):
    """The tensors of a state dict by the names that CTranslate2 would give them; others keep their own."""

    def __init__(self, path: Path, weights: ForeignWeights, description: Description) -> None:
        super().__init__(path, {})
        self._weights, self._description = weights, description
        layer = next(filter(None, map(_LAYER.fullmatch, weights)), None)
        if layer is None:
            raise CheckpointError(f"{path}: tensor 'encoder.layers.0.linear1.weight' is missing")
        self._prefix, self._list = layer["prefix"], layer["list"]
        self._model_dim = weights.shape(layer[0])[-1]
        self.has_biases = layer[0].replace("weight", "bias") in weights
        self._roles = self._found_roles()
        self._titles = dict(self._named())
        for name, title in self._titles.items():
            self.variables[name] = self._placed(name, weights[title])
        used = set(self._titles.values())
        self.variables |= {name: place for name, place in weights.items() if name not in used}

    def title(self, name: str) -> str:
        """Returns the tensor's own name."""
        return self._titles.get(name, name)

    def number(self, name: str, default: float) -> float:
        """Returns what the description tells in place of CTranslate2's attributes."""
        described = self._description
        numbers = {"num_heads": described.num_heads, "pre_norm": described.norm_first}
        return {**numbers, "activation": _ACTIVATIONS[described.activation]}.get(name, default)

    def vocabulary_sizes(self) -> list[int]:
        """Returns the rows of both embeddings."""
        return [self.shape(f"{stack}/embeddings/weight")[0] for stack in STACKS]

    def _named(self) -> Iterator[tuple[str, str]]:
        """Yields CTranslate2's name and the own name of each tensor that such a network has."""
        sides = zip(STACKS, _SIDES, strict=True)
        for stack, side in sides:
            yield f"{stack}/embeddings/weight", self._roles[side]
            if table := self._table(side):
                yield f"{stack}/{TABLE}", table
        yield "decoder/projection/weight", self._roles["output"]
        if (bias := f"{self._roles['output'].removesuffix('weight')}bias") in self._weights:
            yield "decoder/projection/bias", bias
        kinds = ("weight", "bias") if self.has_biases else ("weight",)
        has_norms = any(f"{self._prefix}{stack}.norm.weight" in self._weights for stack in STACKS)
        for stack, kind in product(STACKS, kinds):
            scope = f"{self._prefix}{stack}."
            if has_norms:
                yield f"{stack}/layer_norm/{NORM_NAMES[kind]}", f"{scope}norm.{kind}"
            layer = 0
            while f"{scope}{self._list}{layer}.linear1.weight" in self._weights:
                for ours, theirs in (_ENCODER_LAYER if stack == "encoder" else _DECODER_LAYER).items():
                    named = NORM_NAMES[kind] if ours.endswith("norm") else kind
                    yield (
                        f"{stack}/layer_{layer}/{ours}/{named}",
                        f"{scope}{self._list}{layer}.{theirs}{kind}",
                    )
                layer += 1

    def _placed(self, name: str, place: Variable) -> Variable:
        """Returns where a variable is: a part of its tensor, if that holds queries, keys and values."""
        width, rows = self._model_dim, (place.shape or (0,))[0]
        if name.endswith(TABLE):  # some have a dimension of 1 for the batch
            return replace(place, shape=(math.prod(place.shape[:-1]), *place.shape[-1:]))
        if "/attention/linear_0" in name:
            return place.part(0, min(width, rows))
        return place.part(width, rows) if "/attention/linear_1" in name and rows > width else place

    def _found_roles(self) -> dict[str, str]:
        """Returns the names of both embeddings and of the output projection."""
        path, given = self.path.parent / DESCRIPTION, self._description.names
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
            where = f"{self.path.parent / DESCRIPTION}: `names`"
            raise CheckpointError(f"{where} must tell `{role}`, which may be {choices}")
        return names[0]

    def _is_matrix(self, name: str) -> bool:
        shape = self._weights.shape(name)
        return len(shape) == 2 and shape[1] == self._model_dim

    def _table(self, side: str) -> str | None:
        """Returns the tensor with the positions of a side; None if the state dict has none."""
        given = self._description.names.get("positions")
        if given:
            return given
        used = (f"{self._prefix}encoder.{self._list}", f"{self._prefix}decoder.{self._list}")
        names = [name for name in self._weights if "pos" in name or name.endswith("pe")]
        names = [name for name in names if not name.startswith(used) and name not in self._roles.values()]
        own = [name for name in names if _SIDES[side].search(name)]
        return self._only("positions", own or names) if names else None


class _Network(Network):
    """The network of a state dict."""

    def __init__(self, state: _State, description: Description) -> None:
        super().__init__(state, heads=description.num_heads, epsilon=description.layer_norm_eps)
        self._state, self._description = state, description

    def _norms(self) -> dict[str, object]:
        return {**super()._norms(), "norm_form": "variance", "norm_bias": self._state.has_biases}

    def _scales_embeddings(self) -> bool:
        return self._description.scale_embeddings

    def _added_positions(self) -> dict[str, object]:
        if f"{STACKS[0]}/{TABLE}" not in self._state:
            return {"positions": "sinusoidal", "max_positions": _POSITIONS}
        return super()._added_positions()


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
