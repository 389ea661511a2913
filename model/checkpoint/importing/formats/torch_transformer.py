"""State dicts of `torch.nn.Transformer` with vocabularies in their folder, such as secryst's.

The folder holds one `.pt`, `.pth` or `.safetensors` file, and the pieces of both sides as JSON: a list, ids
by piece, or how often each piece occurs, as torchtext counted them. What a state dict does not say stands in
`transformer.json`; docs/models.md describes its fields.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from model.checkpoint.card import Pair
from model.checkpoint.importing.parameters import (
    Parameter,
    Table,
    find_tie,
    in_layers,
    read_parameters,
    table_positions,
)
from model.checkpoint.importing.reader import (
    Fields,
    ForeignModel,
    ForeignText,
    Readme,
    card_name,
    chosen_pairs,
    network_config,
    refusal,
)
from model.checkpoint.importing.tensors import ForeignTensor, Part, StateDict
from model.checkpoint.importing.vocabulary import (
    SpecialTokens,
    Vocabularies,
    arrange,
    kind_of_pieces,
    tokenizer_files,
)
from model.checkpoint.manifest import read_any_json
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError
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
_STACKS = ("encoder", "decoder")
_LAYER = re.compile(r"(?P<prefix>.*?)(?P<stack>encoder|decoder)\.(?P<list>layers\.|layer)0\.linear1\.weight")
_SIDES = {
    "source_embedding": re.compile(r"(^|[._])(src|source|enc|encoder|input|in)([._]|$)"),
    "target_embedding": re.compile(r"(^|[._])(tgt|trg|target|dec|decoder|output|out)([._]|$)"),
}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
_TABLE: Table = {
    "embedding.tokens": "{embedding}",
    "embedding.positions": "{positions}",
    "output": "{output}.{kind}",
    "norm": "{prefix}{stack}.norm.{kind}",
    **in_layers(
        "{prefix}{stack}.{list}{layer}.{name}{kind}",
        {
            "attention.query": "self_attn.in_proj_",
            "attention.key_value": "self_attn.in_proj_",
            "attention.output": "self_attn.out_proj.",
            "attention_residual.norm": "norm1.",
            "cross.query": "multihead_attn.in_proj_",
            "cross.key_value": "multihead_attn.in_proj_",
            "cross.output": "multihead_attn.out_proj.",
            "cross_residual.norm": "norm2.",
            "feed_forward.input": "linear1.",
            "feed_forward.output": "linear2.",
            "feed_forward_residual.norm": "{last}.",
        },
    ),
}
_MAX_POSITIONS = 512
_DEFAULTS: Mapping[str, object] = {
    "num_heads": 8,
    "norm_first": False,
    "activation": "relu",
    "layer_norm_eps": 1e-5,
    "scale_embeddings": True,
    "names": {},
    "tokens": {},
    "source_begin": None,
    "source_end": None,
    "pairs": [],
}
"""Fields of `transformer.json`; without it, everything is as in `torch.nn.Transformer` and its tutorial."""


def recognises(path: Path) -> bool:
    """Returns whether a folder, or that of a file, holds a state dict and vocabularies."""
    folder = path if path.is_dir() else path.parent
    is_state = (path.is_dir() or path.suffix in _WEIGHTS) and not (folder / _CONFIG).exists()
    return is_state and bool(_state_dicts(folder)) and _vocabulary_file(folder, _SOURCES) is not None


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a state dict."""
    folder = path if path.is_dir() else path.parent
    weights = _only_state_dict(folder) if path.is_dir() else path
    description = Fields.read(folder / DESCRIPTION, _DEFAULTS, is_optional=True)
    description.refuse_others(_DEFAULTS)
    network = _Network(StateDict(folder, weights), description)
    source_file, target_file = (_vocabulary_file(folder, names) for names in (_SOURCES, _TARGETS))
    if source_file is None or target_file is None:
        raise CheckpointError(f"{folder} must hold {SOURCE_VOCABULARY} and {TARGET_VOCABULARY}")
    source_size, target_size = network.vocab_sizes()
    source = _pieces(source_file, source_size)
    target = source if source_file == target_file else _pieces(target_file, target_size)
    tokens = _tokens(description, target)
    vocabularies = arrange(
        source,
        target,
        tokens,
        starts_from_zero=False,
        where=folder,
        pad=description.text_by_name("tokens").get("pad"),
    )
    config = network.config(vocabularies)
    models = tokenizer_files(folder)
    text = ForeignText(
        settings=TokenizerSettings(
            special_ids=vocabularies.token_ids,
            source_begin=_frame(description, "source_begin", tokens.bos),
            source_end=_frame(description, "source_end", tokens.eos),
            prepare="none",
            pieces=kind_of_pieces(folder, models, vocabularies.source.pieces),
        ),
        models=models,
        vocabularies=vocabularies.lists,
        pairs=chosen_pairs(folder, description.pairs("pairs"), pair),
    )
    described = [folder / DESCRIPTION] if (folder / DESCRIPTION).is_file() else []
    return ForeignModel(
        config=config,
        tensors=network.tensors(config, vocabularies),
        text=text,
        name=card_name(folder.resolve().name, default="transformer"),
        max_source_length=min(config.max_positions, _MAX_POSITIONS),
        max_target_length=min(config.max_positions, _MAX_POSITIONS),
        decoding={"strategy": "greedy", "suppress_ids": list(vocabularies.suppressed)},
        licence=Readme.read(folder).licence,
        files=[weights, source_file, target_file, *models.values(), *described],
    )


class _Network:
    """The network of a state dict."""

    def __init__(self, weights: StateDict, description: Fields) -> None:
        self._weights, self._description = weights, description
        layer = next(filter(None, map(_LAYER.fullmatch, weights)), None)
        if layer is None:
            raise CheckpointError(f"{weights.path}: tensor 'encoder.layers.0.linear1.weight' is missing")
        self._prefix, self._list = layer["prefix"], layer["list"]
        self._ffn_dim, self._model_dim = weights.sizes(layer[0], 2)
        self._has_biases = layer[0].replace("weight", "bias") in weights
        self._names = self._find_names()
        self._position_tensors = {role: self._find_position_tensor(role) for role in _SIDES}
        rows, found = self.vocab_sizes()[1], weights.sizes(self._names["output"], 2)[0]
        if found != rows:
            raise refusal(weights.path, self._names["output"], f"of {rows} rows, as the embedding has", found)

    def vocab_sizes(self) -> list[int]:
        """Returns the rows of both embeddings."""
        return [self._weights.sizes(self._names[role], 2)[0] for role in _SIDES]

    def config(self, vocabularies: Vocabularies) -> TransformerConfig:
        """Returns the configuration of our network."""
        described = self._description
        bias = f"{self._names['output'].removesuffix('weight')}bias"
        values: dict[str, object] = {
            **vocabularies.config_fields,
            "model_dim": self._model_dim,
            "num_heads": described.integer("num_heads", 1),
            "num_encoder_layers": self._depth("encoder"),
            "num_decoder_layers": self._depth("decoder"),
            "ffn_dim": self._ffn_dim,
            "activation": described.choice("activation", _ACTIVATIONS),
            "attention_bias": self._has_biases,
            "ffn_bias": self._has_biases,
            "output_bias": bias in self._weights or vocabularies.has_new_targets,
            "scale_embeddings": described.flag("scale_embeddings"),
            "norm_position": "pre" if described.flag("norm_first") else "post",
            "norm_bias": self._has_biases,
            "norm_epsilon": described.number("layer_norm_eps"),
            "final_norm": any(f"{self._prefix}{stack}.norm.weight" in self._weights for stack in _STACKS),
            "tie": find_tie(
                self._weights,
                self._names["source_embedding"],
                self._names["target_embedding"],
                self._names["output"],
                can_share=vocabularies.are_shared,
            ),
            **self._position_fields(),
        }
        return network_config(self._weights.path, values)

    def tensors(self, config: TransformerConfig, vocabularies: Vocabularies) -> dict[str, Read]:
        """Returns how to read every parameter."""
        parts_of = partial(self._parts, config, vocabularies)
        tables = re.compile("|".join(map(re.escape, self._position_tensors.values())))
        return read_parameters(self._weights, config, parts_of, unused=tables)

    def _parts(
        self, config: TransformerConfig, vocabularies: Vocabularies, parameter: Parameter
    ) -> list[Part]:
        module, is_source = parameter.module, parameter.stack == "encoder"
        role = "source_embedding" if is_source else "target_embedding"
        (name,) = parameter.names(
            _TABLE,
            prefix=self._prefix,
            list=self._list,
            last="norm2" if is_source else "norm3",
            embedding=self._names[role],
            output=self._names["output"].removesuffix(".weight"),
            positions=self._position_tensors[role],
        )
        width, rows = config.model_dim, None
        if module in ("embedding.tokens", "output"):
            return [vocabularies.part(parameter, name, self._weights)]
        if module == "embedding.positions":
            rows = np.arange(config.max_positions)
        elif module.endswith("query"):
            rows = np.arange(width)
        elif module.endswith("key_value"):
            rows = np.arange(width, 3 * width)
        return [Part(name, rows)]

    def _depth(self, stack: str) -> int:
        depth = 0
        while f"{self._prefix}{stack}.{self._list}{depth}.linear1.weight" in self._weights:
            depth += 1
        return depth

    def _position_fields(self) -> dict[str, object]:
        if not all(self._position_tensors.values()):
            return {"positions": "sinusoidal", "max_positions": _MAX_POSITIONS}
        return table_positions(
            [self._weights.read(Part(name))().floats() for name in self._position_tensors.values()]
        )

    def _find_names(self) -> dict[str, str]:
        """Returns the names of both embeddings and of the output projection, by their roles."""
        given, roles = self._description.text_by_name("names"), (*_SIDES, "output", "positions")
        for role in given:
            if role not in roles:
                raise refusal(self._description.path, "names", f"of {', '.join(roles)}", role)
        known = {role: f"{name.removesuffix('.weight')}.weight" for role, name in given.items()}
        matrices = [
            name
            for name, tensor in self._outside_layers()
            if tensor.shape[1:] == (self._model_dim,) and "pos" not in name and name not in known.values()
        ]
        embeddings = [name for name in matrices if "emb" in name or "tok" in name]
        names = {}
        for role, side in _SIDES.items():
            found = embeddings if len(embeddings) == 1 else [name for name in embeddings if side.search(name)]
            names[role] = known.get(role) or self._only(role, found)
        others = [name for name in matrices if name not in embeddings]
        output = known.get("output") or self._only("output", others or [names["target_embedding"]])
        return {**names, "output": output}

    def _find_position_tensor(self, role: str) -> str:
        """Returns the tensor with the positions of a side; empty if the state dict has none."""
        name = self._description.text_by_name("names").get("positions", "")
        if not name:
            found = [
                each
                for each, _ in self._outside_layers()
                if ("pos" in each or each.endswith("pe")) and each not in self._names.values()
            ]
            own = [each for each in found if _SIDES[role].search(each)]
            name = self._only("positions", own or found) if found else ""
        if name:  # some have a dimension of 1 for the batch
            shape = self._weights[name].shape
            self._weights.reshape(name, math.prod(shape[:-1]), *shape[-1:])
        return name

    def _outside_layers(self) -> list[tuple[str, ForeignTensor]]:
        layers = tuple(f"{self._prefix}{stack}.{self._list}" for stack in _STACKS)
        return [(name, tensor) for name, tensor in self._weights.items() if not name.startswith(layers)]

    def _only(self, role: str, names: Sequence[str]) -> str:
        if len(names) != 1:
            choices = ", ".join(names) or "any"
            raise CheckpointError(
                f"{self._description.path}: `names` must tell `{role}`, which may be {choices}"
            )
        return names[0]


def _only_state_dict(folder: Path) -> Path:
    states = _state_dicts(folder)
    if len(states) != 1:
        found = ", ".join(state.name for state in states) or "none"
        raise CheckpointError(f"{folder} must hold one state dict, but has {found}: import the file itself")
    return states[0]


def _state_dicts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS and path.is_file())


def _vocabulary_file(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in (*names, *_SHARED) if (folder / name).is_file()), None)


def _pieces(path: Path, rows: int) -> list[str]:
    """Returns the piece of every id, for an embedding of so many rows."""
    content: Any = read_any_json(path)
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


def _frame(description: Fields, name: str, usual: str) -> list[str]:
    """Returns the pieces before or behind a source; the usual one, if the description does not tell."""
    return [usual] if description.get(name) is None else description.texts(name)


def _tokens(description: Fields, target: Sequence[str]) -> SpecialTokens:
    known = set(target)
    found = {}
    for role, names in _ROLES.items():
        given = description.text_by_name("tokens").get(role)
        choice = given or next((name for name in names if name in known), names[0])
        if choice not in known:
            raise refusal(description.path, f"tokens.{role}", "a piece of the target vocabulary", choice)
        found[role] = choice
    return SpecialTokens(**found, start=found["bos"])
