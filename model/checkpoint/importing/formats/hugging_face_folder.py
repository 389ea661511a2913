"""Folders of Hugging Face's `save_pretrained`: config.json, generation_config.json, weights, tokenizer.

The search of `generate` becomes our options. It divides the log-probability of a hypothesis by a power of its
length, with EOS and without the decoder's start; `max_length` counts that start. `early_stopping` is `stop`:

    false      pool    K hypotheses have ended, and no live one is ahead of the worst of the K best
    true       count   K hypotheses have ended
    "never"    all     no live hypothesis can still beat one of them
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.formats.hugging_face_network import DEFAULTS, Network, read_network
from model.checkpoint.importing.formats.hugging_face_tokenizers import (
    SETTINGS,
    ModelFacts,
    present,
    read_tokenizer,
)
from model.checkpoint.importing.reader import (
    Fields,
    ForeignModel,
    ForeignText,
    Readme,
    card_name,
    network_config,
)
from model.checkpoint.importing.tensors import StateDict
from model.checkpoint.importing.vocabulary import NEVER
from model.checkpoint.manifest import read_json
from model.checkpoint.weights import StoredTensor
from model.checkpoint.weights_writer import Read
from model.config import TransformerConfig
from model.errors import CheckpointError

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


def recognises(path: Path) -> bool:
    """Returns whether a folder has a config.json with a `model_type`."""
    config = path / CONFIG
    return config.is_file() and isinstance(read_json(config).get("model_type"), str)


def read(folder: Path, pair: Pair | None) -> ForeignModel:
    """Reads a model of a family that can be computed."""
    fields = _read_fields(folder / CONFIG)
    family, search = fields.text("model_type"), _read_search(folder, fields.path)
    suppressed = _suppressed(search)
    weights = StateDict(folder)
    network = read_network(fields, weights)
    _check_sizes(fields, network)
    facts = ModelFacts(
        folder=folder,
        config=fields,
        sizes=network.vocab_sizes,
        special_ids=_special_ids(fields, search, min(network.vocab_sizes)),
        pair=pair,
        readme=Readme.read(folder),
    )
    tokenizer = _begun(read_tokenizer(facts), search)
    config = _config(network, tokenizer, fields, search)
    tensors = network.tensors(config)
    if search.flag("renormalize_logits"):
        tensors["output.bias"] = _suppressing(
            [*suppressed, config.pad_id], tensors["output.bias"], facts.sizes[1], search
        )
    # `generate` counts the tokens that every translation begins with.
    longest, begin = config.max_positions, len(tokenizer.settings.target_begin)
    files = [fields.path, *present(folder, search.path.name, SETTINGS), *tokenizer.files, *weights.files]
    return ForeignModel(
        config=config,
        tensors=tensors,
        text=tokenizer,
        name=card_name(folder.absolute().name, default=family),
        max_source_length=max(2, longest),
        max_target_length=min(longest, _most_tokens(search) or longest) - begin,
        decoding={
            **_decoding(search),
            "min_length": max(0, _fewest_tokens(search) - begin),
            "suppress_ids": sorted(set(suppressed) - set(config.never_produced())),
        },
        licence=facts.readme.licence,
        files=files,
        origin={"family": family},
    )


def _read_fields(path: Path) -> Fields:
    """Returns the fields of config.json, whose family must be one that can be computed."""
    family = Fields.read(path, {}).get("model_type")
    if not isinstance(family, str) or family not in DEFAULTS:
        hint = _UNUSUAL.get(str(family))
        requirement = f"one of {', '.join(DEFAULTS)}" + (f" ({hint})" if hint else "")
        raise Fields.read(path, {}).refusal("model_type", requirement)
    return Fields.read(path, DEFAULTS[family])


def _config(network: Network, tokenizer: ForeignText, fields: Fields, search: Fields) -> TransformerConfig:
    """Returns the configuration of our network, with an output bias where logits are renormalised."""
    starts = tokenizer.start_id, search.optional_integer("decoder_start_token_id")
    start = next((id_ for id_ in starts if id_ is not None), None)
    return network_config(
        fields.path,
        {
            **network.shape,
            **({"output_bias": True} if search.flag("renormalize_logits") else {}),
            **{f"{name}_id": id_ for name, id_ in tokenizer.settings.special_ids.items()},
            "decoder_start_id": fields.integer("decoder_start_token_id") if start is None else start,
        },
    )


def _read_search(folder: Path, config: Path) -> Fields:
    """Returns the settings of `generate`, which older folders have in their config.json."""
    own = folder / _GENERATION
    search = Fields.read(own if own.is_file() else config, _SEARCH_DEFAULTS)
    for name, neutral in _NEUTRAL.items():
        search.only(name, *neutral)
    return search


def _decoding(search: Fields) -> dict[str, object]:
    """Returns the search in DecodeOptions, without limits of length and suppressed ids."""
    beams = search.integer("num_beams", 1)
    stops: Mapping[object, str] = {False: "pool", True: "count", "never": "all"}
    if not isinstance(early := search.get("early_stopping"), bool | str) or early not in stops:
        raise search.refusal("early_stopping", "true, false or 'never'")
    return {
        **({"strategy": "beam", "beam_size": beams} if beams > 1 else {"strategy": "greedy"}),
        "length_penalty": search.number("length_penalty"),
        "stop": stops[early],
        "no_repeat_ngram_size": search.integer("no_repeat_ngram_size"),
        "repetition_penalty": search.number("repetition_penalty"),
    }


def _most_tokens(fields: Fields) -> int | None:
    """Returns the most tokens of a translation, EOS included; None if the file does not say."""
    if fields.get("max_new_tokens") is not None:
        return fields.integer("max_new_tokens", 1)
    return None if fields.get("max_length") is None else fields.integer("max_length", 2) - 1


def _fewest_tokens(fields: Fields) -> int:
    """Returns the fewest tokens of a translation, EOS included; `min_new_tokens` does not count EOS."""
    if fields.get(name := "min_new_tokens") is not None:
        return fields.integer(name) + 1
    return fields.integer("min_length")


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


def _begun(tokenizer: ForeignText, search: Fields) -> ForeignText:
    """Returns a tokenizer whose translations begin with the token that `generate` always puts first."""
    forced = search.optional_integer(name := "forced_bos_token_id")
    if forced is None:
        return tokenizer
    pieces = list(tokenizer.vocabularies.values())[-1] if tokenizer.vocabularies else []
    if not pieces or forced >= len(pieces):
        raise search.refusal(name, "an id of the vocabulary")
    piece = pieces[forced]
    if not tokenizer.settings.target_begin:
        return replace(tokenizer, settings=replace(tokenizer.settings, target_begin=(piece,)))
    pairs = [pair for pair in tokenizer.pairs if tokenizer.settings.tags.get(pair[1]) == piece]
    if not pairs:
        raise search.refusal(name, f"the tag of a target language, which {piece} is not")
    return replace(tokenizer, pairs=pairs)


def _special_ids(fields: Fields, search: Fields, rows: int) -> dict[str, int]:
    """Returns the ids of padding, BOS and EOS; a model without BOS has padding in its place."""
    ids = {"pad": fields.integer("pad_token_id"), "eos": _first(search, "eos_token_id")}
    ids["eos"] = fields.integer("eos_token_id") if ids["eos"] is None else ids["eos"]
    ids["bos"] = fields.optional_integer("bos_token_id")
    found = {name: ids["pad"] if id_ is None else id_ for name, id_ in ids.items()}
    for name, id_ in found.items():
        if id_ is None or id_ >= rows:
            raise fields.refusal(f"{name}_token_id", f"below {rows}")
    return {name: id_ for name, id_ in found.items() if id_ is not None}


def _check_sizes(fields: Fields, network: Network) -> None:
    """Requires that the embeddings have as many rows as config.json says."""
    sizes = {"vocab_size": network.vocab_sizes[0]}
    if network.shape["tie"] == "none":
        sizes["decoder_vocab_size"] = network.vocab_sizes[1]
    for name, rows in sizes.items():
        if fields.get(name) not in (None, rows):
            raise fields.refusal(name, f"{rows}, the rows of the embedding")


def _suppressing(ids: Sequence[int], bias: Read, rows: int, search: Fields) -> Read:
    """Returns an output bias that suppresses ids, so that the probabilities of the others add up to 1."""
    if max(ids) >= rows:
        raise CheckpointError(f"{search.path}: token {max(ids)} must be below {rows}")

    def read() -> StoredTensor:
        values = bias().floats().copy()
        values[ids] = NEVER
        return StoredTensor(values, "float32")

    return read
