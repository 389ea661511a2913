"""ⓕ The search of `generate` in our options: generation_config.json, or the fields of an older config.json.

`generate` divides the log-probability of a hypothesis by a power of its length, with EOS and without the
decoder's start. `early_stopping` is our `stop`:

    false      pool    K hypotheses have ended, and no live one is ahead of the worst of the K best
    true       count   K hypotheses have ended
    "never"    all     no live hypothesis can still beat one of them

`max_length` counts the decoder's start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.importing.foreign import Fields

GENERATION = "generation_config.json"
_DEFAULTS: Mapping[str, object] = {
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
    own = folder / GENERATION
    fields = Fields.read(own if own.is_file() else config, _DEFAULTS)
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
