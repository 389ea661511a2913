"""⑤ ⑦ A second attempt at a translation that looks broken, once, by a search that may not repeat itself."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.translation.quality_checks import Kind, repeats_itself
from model.translation.result import SentenceTranslation

BEAM_SIZE: Final = 4
NO_REPEAT_NGRAM_SIZE: Final = 3
REPETITION_PENALTY: Final = 1.1
_REPETITIVE = frozenset({"loop", "unfinished", "length"})


def second_request(first: SentenceTranslation) -> DecodeRequest | None:
    """Returns the request of a second attempt; None if nothing looks broken or nothing else can be tried.

    If a translation repeats itself or is too long, and its source repeats itself, a search that may not
    repeat itself produces nonsense, so there is no second attempt.
    """
    if first.diagnosis is None:
        return None
    if first.diagnosis.kind in _REPETITIVE and repeats_itself(first.request.source_ids):
        return None
    options = _stricter(first.request.options, first.diagnosis.kind)
    request = dataclasses.replace(first.request, options=options)
    return None if request == first.request else request


def better_of(
    first: SentenceTranslation, request: DecodeRequest, result: Sequence[Hypothesis]
) -> SentenceTranslation:
    """Returns the second translation if nothing is wrong with it, otherwise the first.

    Args:
        first: The translation that looked broken.
        request: The second request.
        result: The hypotheses of the second request.

    Returns:
        One of the two, with a diagnosis that says which.
    """
    if first.diagnosis is None or not result:
        return first
    second = SentenceTranslation.of(first.sentence, first.target, request, result, first.tokenizer)
    kept = second.diagnosis is None
    diagnosis = dataclasses.replace(first.diagnosis, retried=True, kept=kept)
    return dataclasses.replace(second if kept else first, diagnosis=diagnosis)


def _stricter(options: DecodeOptions, kind: Kind) -> DecodeOptions:
    beam_size = options.beam_size if options.strategy == "beam" else options.num_hypotheses
    # EOS counts. A single other token may be white space, or a byte that is not a character.
    min_length = max(options.min_length, 3 if kind == "empty" else 2)
    return dataclasses.replace(
        options,
        strategy="beam",
        beam_size=max(beam_size, BEAM_SIZE),
        no_repeat_ngram_size=min(options.no_repeat_ngram_size or NO_REPEAT_NGRAM_SIZE, NO_REPEAT_NGRAM_SIZE),
        repetition_penalty=max(options.repetition_penalty, REPETITION_PENALTY),
        min_length=min_length if options.max_length is None else min(min_length, options.max_length),
    )
