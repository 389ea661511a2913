"""ⓕ Finding golden sentences: plain ones that a network is sure how to translate. See `model.golden`."""

from collections.abc import Callable, Mapping, Sequence

from model.card import Pair
from model.errors import TranslationError
from model.golden import GoldenSentence, golden_request, is_sure
from model.request import DecodeRequest, Hypothesis
from model.text.plain_sentences import plain_sentences
from model.text.tokenizer import Tokenizer

Decode = Callable[[Sequence[DecodeRequest]], Sequence[list[Hypothesis] | TranslationError]]
"""An engine: for each request its hypotheses, or why there are none."""


def find_golden(
    pairs: Sequence[Pair],
    decode: Decode,
    tokenizer: Tokenizer,
    *,
    texts: Mapping[Pair, Sequence[str]] | None = None,
) -> tuple[GoldenSentence, ...]:
    """Golden sentences of a network as it is now; none for a direction that it is not sure of.

    Args:
        pairs: The directions it translates.
        decode: Runs it.
        tokenizer: Its own.
        texts: To choose from; plain sentences for the directions that are not named.
    """
    candidates = [
        (pair, text) for pair in pairs for text in (texts or {}).get(pair, plain_sentences(pair[0]))
    ]
    results = decode([golden_request(tokenizer, text, pair[1]) for pair, text in candidates])
    return tuple(
        GoldenSentence(
            source_language=pair[0],
            target_language=pair[1],
            source=text,
            translation=tokenizer.decode(result[0].token_ids),
        )
        for (pair, text), result in zip(candidates, results, strict=True)
        if isinstance(result, list) and is_sure(result[0])
    )
