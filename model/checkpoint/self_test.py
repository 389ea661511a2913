"""ⓕ Self-test sentences: short texts and their translations when the checkpoint was written.

Checksums verify files, not what is computed from them. So the service lets each engine translate these texts
before it is ready, and compares the translations. No torch.

A sentence is recorded only if the network was sure of its translation: each token had a probability of at
least one half. Another order of summation, or int8 weights, shifts a probability by some hundredths, so that
an engine's translation is equal or almost equal. Weights that are corrupt, packed wrongly or of another
tokenizer give entirely different translations.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Final

from model.checkpoint.card import Pair
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.errors import CheckpointError, TranslationError
from model.text.languages import canonical_code
from model.text.tokenizer import Tokenizer

PLAIN_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("Wo ist der Bahnhof?", "Ich habe Hunger.", "Das Buch liegt auf dem Tisch.", "Wie spät ist es?"),
    "en": ("Where is the station?", "I am hungry.", "The book is on the table.", "What time is it?"),
    "es": ("¿Dónde está la estación?", "Tengo hambre.", "El libro está sobre la mesa.", "¿Qué hora es?"),
    "fr": ("Où est la gare ?", "J'ai faim.", "Le livre est sur la table.", "Quelle heure est-il ?"),
    "it": ("Dov'è la stazione?", "Ho fame.", "Il libro è sul tavolo.", "Che ora è?"),
    "ja": ("駅はどこですか。", "お腹が空きました。", "本は机の上にあります。", "今何時ですか。"),
    "nl": ("Waar is het station?", "Ik heb honger.", "Het boek ligt op de tafel.", "Hoe laat is het?"),
    "pl": ("Gdzie jest dworzec?", "Jestem głodny.", "Książka leży na stole.", "Która jest godzina?"),
    "pt": ("Onde fica a estação?", "Estou com fome.", "O livro está na mesa.", "Que horas são?"),
    "ru": ("Где вокзал?", "Я голоден.", "Книга лежит на столе.", "Который час?"),
    "zh": ("车站在哪里？", "我饿了。", "书在桌子上。", "现在几点了？"),
}
"""The same four sentences in each language, by language code."""

PROVENANCE_KEY: Final = "golden"
"""The key of provenance.json that holds self-test sentences."""
MIN_SIMILARITY: Final = 0.6
_LEAST_SURE: Final = math.log(0.5)
Decode = Callable[[Sequence[DecodeRequest]], Sequence[list[Hypothesis] | TranslationError]]
"""An engine: for each request its hypotheses, or why there are none."""
References = Mapping[Pair, Mapping[str, Collection[str]]]
"""For each direction, texts and all their right translations."""


def plain_sentences(language: str) -> tuple[str, ...]:
    """Returns the plain sentences of a language; none for an unknown language."""
    return PLAIN_SENTENCES.get(canonical_code(language), ())


@dataclass(frozen=True, kw_only=True)
class SelfTestSentence:
    """A short text and its greedy translation.

    Attributes:
        source_language: Code.
        target_language: Code.
        source: The text; it comes neither from a user nor from a corpus.
        translation: The translation by the network when the checkpoint was written.
    """

    source_language: str
    target_language: str
    source: str
    translation: str

    def to_dict(self) -> dict[str, str]:
        """Returns plain values, for JSON."""
        return asdict(self)

    def request(self, tokenizer: Tokenizer) -> DecodeRequest:
        """Returns the decode request for the text."""
        return self_test_request(tokenizer, self.source, (self.source_language, self.target_language))


def self_test_request(tokenizer: Tokenizer, text: str, pair: Pair) -> DecodeRequest:
    """Returns the decode request of a self-test: greedy search."""
    ids = tokenizer.encode(text, source_language=pair[0], target_language=pair[1])
    start_ids = tokenizer.target_prefix(*pair)
    return DecodeRequest(tuple(ids), DecodeOptions(strategy="greedy"), start_ids=start_ids)


def is_sure(hypothesis: Hypothesis) -> bool:
    """Returns whether every token, EOS included, had a probability of at least one half."""
    return hypothesis.finished and min(hypothesis.token_log_probabilities) >= _LEAST_SURE


def self_test_sentences(provenance: Mapping[str, object]) -> tuple[SelfTestSentence, ...]:
    """Returns the self-test sentences of a checkpoint's provenance; older checkpoints have none.

    Raises:
        CheckpointError: If the entry is malformed.
    """
    entries = provenance.get(PROVENANCE_KEY, [])
    try:
        if not isinstance(entries, list):
            raise TypeError
        sentences = tuple(SelfTestSentence(**entry) for entry in entries)
        if not all(isinstance(value, str) for each in sentences for value in asdict(each).values()):
            raise TypeError
    except TypeError:
        raise CheckpointError(
            f"provenance.json: `{PROVENANCE_KEY}` must be a list of self-test sentences"
        ) from None
    return sentences


def require_self_test(sentences: Sequence[SelfTestSentence], translations: Sequence[str]) -> None:
    """Compares an engine's translations of self-test sentences with the recorded ones.

    Args:
        sentences: Self-test sentences of one checkpoint.
        translations: The engine's translation of each.

    Raises:
        CheckpointError: If the mean `similarity` of one direction is below MIN_SIMILARITY.
    """
    by_direction: dict[str, list[float]] = {}
    for sentence, translation in zip(sentences, translations, strict=True):
        direction = f"{sentence.source_language}-{sentence.target_language}"
        by_direction.setdefault(direction, []).append(similarity(sentence.translation, translation))
    for direction, similarities in by_direction.items():
        mean = sum(similarities) / len(similarities)
        if mean < MIN_SIMILARITY:
            raise CheckpointError(
                f"its self-test sentences {direction} are translated otherwise than when it was written: "
                f"similarity {mean:.2f}, but at least {MIN_SIMILARITY} is needed"
            )


def similarity(one: str, other: str) -> float:
    """Returns the share of characters that two texts have in the same order, 0 to 1."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def find_self_test(
    pairs: Sequence[Pair],
    decode: Decode,
    tokenizer: Tokenizer,
    *,
    texts: Mapping[Pair, Sequence[str]] | None = None,
    references: References | None = None,
) -> tuple[SelfTestSentence, ...]:
    """Finds self-test sentences of a network with its present weights.

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
    results = decode([self_test_request(tokenizer, text, pair) for pair, text in candidates])
    found = (
        SelfTestSentence(
            source_language=pair[0],
            target_language=pair[1],
            source=text,
            translation=tokenizer.decode(result[0].token_ids),
        )
        for (pair, text), result in zip(candidates, results, strict=True)
        if isinstance(result, list) and is_sure(result[0])
    )
    return tuple(each for each in found if references is None or _is_right(each, references))


def _is_right(sentence: SelfTestSentence, references: References) -> bool:
    pair = (sentence.source_language, sentence.target_language)
    return sentence.translation in references[pair][sentence.source]
