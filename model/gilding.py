"""ⓕ Finding golden sentences: short ones that a network translates surely. See `model.golden`."""

from collections.abc import Callable, Collection, Mapping, Sequence

from model.card import Pair
from model.errors import TranslationError
from model.golden import GoldenSentence, golden_request, is_sure
from model.request import DecodeRequest, Hypothesis
from model.text.plain_sentences import plain_sentences
from model.text.tokenizer import Tokenizer

Decode = Callable[[Sequence[DecodeRequest]], Sequence[list[Hypothesis] | TranslationError]]
"""An engine: for each request its hypotheses, or why there are none."""

References = Mapping[Pair, Mapping[str, Collection[str]]]
"""For each direction, texts and all their right translations."""


def find_golden(
    pairs: Sequence[Pair],
    decode: Decode,
    tokenizer: Tokenizer,
    *,
    texts: Mapping[Pair, Sequence[str]] | None = None,
    references: References | None = None,
) -> tuple[GoldenSentence, ...]:
    """Find golden sentences of a network with its present weights.

    Args:
        pairs: The directions that the network translates.
        decode: Runs the network.
        tokenizer: The network's tokenizer.
        texts: Texts to choose from; plain sentences for the directions that are not named.
        references: Texts to choose from instead, with people's translations: a sentence is kept only if the
            network's translation equals one of them.

    Returns:
        The sentences of whose translation the network is sure; none for a direction without such a sentence.
    """
    if references is None:
        choices = {pair: (texts or {}).get(pair, plain_sentences(pair[0])) for pair in pairs}
    else:
        choices = {pair: tuple(references.get(pair, {})) for pair in pairs}
    candidates = [(pair, text) for pair in pairs for text in choices[pair]]
    results = decode([golden_request(tokenizer, text, pair[1]) for pair, text in candidates])
    found = (
        GoldenSentence(
            source_language=pair[0],
            target_language=pair[1],
            source=text,
            translation=tokenizer.decode(result[0].token_ids),
        )
        for (pair, text), result in zip(candidates, results, strict=True)
        if isinstance(result, list) and is_sure(result[0])
    )
    return tuple(each for each in found if references is None or _is_right(each, references))


def _is_right(sentence: GoldenSentence, references: References) -> bool:
    pair = (sentence.source_language, sentence.target_language)
    return sentence.translation in references[pair][sentence.source]
