"""ⓕ Folders of Hugging Face's `save_pretrained`: config.json, generation_config.json, weights, tokenizer.

The search of `generate` becomes our options. It divides the log-probability of a hypothesis by a power of its
length, with EOS and without the decoder's start; `max_length` counts that start. `early_stopping` is `stop`:

    false      pool    K hypotheses have ended, and no live one is ahead of the worst of the K best
    true       count   K hypotheses have ended
    "never"    all     no live hypothesis can still beat one of them
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.foreign import (
    Fields,
    ForeignModel,
    ForeignText,
    card_name,
    checksums,
    refusal,
)
from model.checkpoint.importing.formats.hugging_face.network import DEFAULTS, Network, read_network
from model.checkpoint.importing.formats.hugging_face.tokenizers import SETTINGS, Request, read_tokenizer
from model.checkpoint.importing.state_dict import StateDict
from model.checkpoint.importing.text import Readme
from model.checkpoint.manifest import read_json
from model.checkpoint.weights import StoredTensor
from model.checkpoint.writing import Read
from model.config import TransformerConfig
from model.errors import CheckpointError, ConfigError, TokenizerError

CONFIG, _GENERATION = "config.json", "generation_config.json"
_SEARCH_DEFAULTS: Mapping[str, object] = {
    "num_beams": 1,
    "early_stopping": False,
    "length_penalty": 1.0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "renormalize_logits": False,
}
_NEUTRAL: Mapping[str, Sequence[object]] = {
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1, 1.0),
    "begin_suppress_tokens": ([],),
    "forced_decoder_ids": ([],),
    "force_words_ids": (),
    "constraints": (),
    "sequence_bias": (),
    "exponential_decay_length_penalty": (),
    "guidance_scale": (1, 1.0),
    "penalty_alpha": (0, 0.0),
    "watermarking_config": (),
    "stop_strings": (),
}
"""Fields that change the tokens and have no counterpart, with the values that change nothing."""
_UNUSUAL = {
    "nllb-moe": "mixtures of experts cannot be computed; its dense distillations can",
    "fsmt": "FSMT is not read; the original fairseq model converts to CTranslate2 with ct2-fairseq-converter",
}
_NEVER = -1e4
"""An output bias so low that the probability is 0."""


def recognises(path: Path) -> bool:
    """Returns whether a folder has a config.json with a `model_type`."""
    config = path / CONFIG
    return config.is_file() and isinstance(read_json(config).get("model_type"), str)


def read(folder: Path, pair: Pair | None) -> ForeignModel:
    """Reads a model of a family that can be computed.

    Raises:
        CheckpointError: If the model is broken or cannot be computed; the message names file and field.
    """
    path = folder / CONFIG
    family = Fields.read(path, {}).get("model_type")
    if not isinstance(family, str) or family not in DEFAULTS:
        hint = _UNUSUAL.get(str(family))
        requirement = f"one of {', '.join(DEFAULTS)}" + (f" ({hint})" if hint else "")
        raise Fields.read(path, {}).refusal("model_type", requirement)
    fields = Fields.read(path, DEFAULTS[family])
    generation = read_generation(folder, path)
    weights = StateDict(folder)
    network = read_network(fields, weights)
    _check_sizes(fields, network)
    sizes = network.vocab_sizes
    readme = Readme.read(folder)
    special = _special_ids(fields, generation, min(sizes))
    request = Request(
        folder=folder, config=fields, sizes=sizes, special_ids=special, pair=pair, readme=readme
    )
    try:
        tokenizer = _begun(read_tokenizer(request), generation)
        start = generation.start_id if tokenizer.start_id is None else tokenizer.start_id
        start = fields.integer("decoder_start_token_id") if start is None else start
        shape = {**network.shape, **({"output_bias": True} if generation.renormalises else {})}
        ids = {f"{name}_id": id_ for name, id_ in tokenizer.settings.special_ids.items()}
        config = TransformerConfig.from_dict({**shape, **ids, "decoder_start_id": start})
    except (ConfigError, TokenizerError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    tensors = network.tensors(config)
    if generation.renormalises:
        bias = tensors["output.bias"]
        tensors["output.bias"] = _renormalised(generation, sizes[1], special["pad"], bias)
    longest, fewest = config.max_positions, generation.min_length
    # `generate` counts the tokens that every translation begins with.
    begin = len(tokenizer.settings.target_begin)
    most, fewest = min(longest, generation.max_length or longest) - begin, max(0, fewest - begin)
    files = [path, *_present(folder, generation.path.name, SETTINGS), *tokenizer.files, *weights.files]
    return ForeignModel(
        config=config,
        tensors=tensors,
        text=tokenizer,
        name=card_name(folder.absolute().name, default=family),
        max_source_length=max(2, longest),
        max_target_length=most,
        decoding={
            **generation.decoding,
            "min_length": fewest,
            "suppress_ids": sorted(set(generation.suppressed) - set(config.never_produced())),
        },
        licence=readme.licence,
        origin={"family": family, "files": checksums(dict.fromkeys(files))},
    )


@dataclass(frozen=True, kw_only=True)
class Generation:
    """What `generate` does by default.

    Attributes:
        decoding: Values of DecodeOptions, without limits of length and suppressed ids.
        eos_id: EOS; None if the file does not say.
        start_id: The decoder's first input; None if the file does not say.
        forced_id: The first token of every translation, if it is always the same.
        max_length: Most tokens, EOS included; None if the file does not say.
        min_length: Fewest tokens, EOS included.
        suppressed: Ids that are never produced.
        renormalises: Whether probabilities add up to 1 again after suppression.
        path: The file that was read.
    """

    decoding: Mapping[str, object]
    eos_id: int | None
    start_id: int | None
    forced_id: int | None
    max_length: int | None
    min_length: int
    suppressed: Sequence[int]
    renormalises: bool
    path: Path


def read_generation(folder: Path, config: Path) -> Generation:
    """Reads the generation settings of a folder.

    Raises:
        CheckpointError: If a field changes the tokens in a way that cannot be computed.
    """
    own = folder / _GENERATION
    fields = Fields.read(own if own.is_file() else config, _SEARCH_DEFAULTS)
    for name, neutral in _NEUTRAL.items():
        fields.only(name, *neutral)
    beams = fields.integer("num_beams", 1)
    stops: Mapping[object, str] = {False: "pool", True: "count", "never": "all"}
    if not isinstance(early := fields.get("early_stopping"), bool | str) or early not in stops:
        raise fields.refusal("early_stopping", "true, false or 'never'")
    decoding: dict[str, object] = {
        "strategy": "beam" if beams > 1 else "greedy",
        "length_penalty": fields.number("length_penalty"),
        "stop": stops[early],
        "no_repeat_ngram_size": fields.integer("no_repeat_ngram_size"),
        "repetition_penalty": fields.number("repetition_penalty"),
    }
    return Generation(
        decoding=decoding | ({"beam_size": beams} if beams > 1 else {}),
        eos_id=_first(fields, "eos_token_id"),
        start_id=fields.optional_integer("decoder_start_token_id"),
        forced_id=fields.optional_integer("forced_bos_token_id"),
        max_length=_most_tokens(fields),
        min_length=fields.integer("min_length"),
        suppressed=_suppressed(fields),
        renormalises=fields.flag("renormalize_logits"),
        path=fields.path,
    )


def _most_tokens(fields: Fields) -> int | None:
    if fields.get("max_new_tokens") is not None:
        return fields.integer("max_new_tokens", 1)
    return None if fields.get("max_length") is None else fields.integer("max_length", 2) - 1


def _suppressed(fields: Fields) -> list[int]:
    words = fields.get("bad_words_ids") or []
    ids = fields.get("suppress_tokens") or []
    if not isinstance(words, list) or not all(isinstance(word, list) and len(word) == 1 for word in words):
        raise fields.refusal("bad_words_ids", "lists of one token each")
    if not isinstance(ids, list):
        raise fields.refusal("suppress_tokens", "a list of tokens")
    found = [*(word[0] for word in words), *ids]
    if not all(type(each) is int and each >= 0 for each in found):
        raise fields.refusal("bad_words_ids" if words else "suppress_tokens", "token ids")
    return sorted(set(found))


def _first(fields: Fields, name: str) -> int | None:
    """Returns an id that may be given as a list of one."""
    value = fields.get(name)
    if isinstance(value, list) and len(value) == 1 and type(value[0]) is int:
        return value[0]
    return fields.optional_integer(name)


def _begun(tokenizer: ForeignText, generation: Generation) -> ForeignText:
    """Returns a tokenizer whose translations begin with the token that `generate` always puts first."""
    if generation.forced_id is None:
        return tokenizer
    pieces = list(tokenizer.vocabularies.values())[-1] if tokenizer.vocabularies else []
    if not pieces or generation.forced_id >= len(pieces):
        requirement = "an id of the vocabulary"
        raise refusal(generation.path, "forced_bos_token_id", requirement, generation.forced_id)
    piece = pieces[generation.forced_id]
    if not tokenizer.settings.target_begin:
        return replace(tokenizer, settings=replace(tokenizer.settings, target_begin=(piece,)))
    pairs = [pair for pair in tokenizer.pairs if tokenizer.settings.tags.get(pair[1]) == piece]
    if not pairs:
        raise refusal(generation.path, "forced_bos_token_id", "the tag of a target language", piece)
    return replace(tokenizer, pairs=pairs)


def _special_ids(fields: Fields, generation: Generation, rows: int) -> dict[str, int]:
    """Returns the ids of padding, BOS and EOS; a model without BOS has padding in its place."""
    ids = {"pad": fields.integer("pad_token_id"), "eos": generation.eos_id}
    ids["eos"] = fields.integer("eos_token_id") if ids["eos"] is None else ids["eos"]
    ids["bos"] = fields.optional_integer("bos_token_id")
    found = {name: ids["pad"] if id_ is None else id_ for name, id_ in ids.items()}
    for name, id_ in found.items():
        if id_ is None or id_ >= rows:
            raise fields.refusal(f"{name}_token_id", f"below {rows}")
    return {name: id_ for name, id_ in found.items() if id_ is not None}


def _check_sizes(fields: Fields, network: Network) -> None:
    """Requires that the embeddings have as many rows as config.json says."""
    for name, size in (("vocab_size", "source_vocab_size"), ("decoder_vocab_size", "target_vocab_size")):
        claimed = fields.get(name)
        if claimed is not None and claimed != network.shape[size] and network.shape["tie"] == "none":
            raise fields.refusal(name, f"{network.shape[size]}, the rows of the embedding")
    if fields.get("vocab_size") not in (None, network.shape["source_vocab_size"]):
        raise fields.refusal("vocab_size", f"{network.shape['source_vocab_size']}, the rows of the embedding")


def _renormalised(generation: Generation, rows: int, pad_id: int, bias: Read) -> Read:
    """Returns an output bias that suppresses tokens, so that the probabilities of the others add up to 1."""
    ids: Sequence[int] = [*generation.suppressed, pad_id]
    if max(ids) >= rows:
        raise CheckpointError(f"{generation.path}: token {max(ids)} must be below {rows}")

    def suppress() -> StoredTensor:
        values = bias().floats().copy()
        values[ids] = _NEVER
        return StoredTensor(values, "float32")

    return suppress


def _present(folder: Path, *names: str) -> list[Path]:
    return [folder / name for name in names if (folder / name).is_file()]
