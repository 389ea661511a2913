"""② ③ A text becomes decode requests; ⑥ ⑦ ⑧ hypotheses become a text again. No torch.

The synchronous Translator and the service both go through here, so their answers are equal.
"""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Self

from model.checkpoint.card import ModelCard, Pair
from model.errors import TextTooLongError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.casing import source_ids
from model.text.document import Document, Splitting
from model.text.languages import canonical_code, known_code
from model.text.tokenizer import Tokenizer
from model.translation.result import SentenceTranslation, Translation


@dataclass(frozen=True)
class Passage:
    """A text on its way through the decoder.

    Attributes:
        document: Its sentences, and the gaps between them.
        target: Language that the translation is in.
        requests: One a sentence; none for a text that comes back unchanged.
        encode_seconds: How much of the time of reading went into token ids.
    """

    document: Document
    target: str
    requests: tuple[DecodeRequest, ...]
    encode_seconds: float = field(default=0.0, compare=False)

    @classmethod
    def read(
        cls,
        text: str,
        *,
        tokenizer: Tokenizer,
        card: ModelCard,
        pair: Pair,
        options: DecodeOptions,
        field: str = "q",
        splitting: Splitting = "sentences",
    ) -> Self:
        """Split a text and encode its sentences.

        A sentence that the vocabulary cannot spell comes back as it is, like the gaps, however long.

        Args:
            text: Any text; blank ones need no decoding.
            tokenizer: Of the checkpoint.
            card: Of the checkpoint, for its limits.
            pair: Source and target as `resolve_pair` gives them; the same code twice leaves the
                text unchanged.
            options: How to decode every sentence; `card.max_target_length` bounds them.
            field: Where the text stands in the request, e.g. `q[3]`, for messages.
            splitting: Where its sentences end.

        Raises:
            TextTooLongError: If a sentence has more tokens than `card.max_source_length`.
        """
        source, target = pair
        document = Document.split(text, source, splitting)
        sentences = () if source == target else document.sentences
        began = time.monotonic()
        ids = [source_ids(sentence, pair, tokenizer) for sentence in sentences]
        encode_seconds = time.monotonic() - began
        spelt = list(map(tokenizer.can_spell, ids))
        if not all(spelt):
            document = document.keeping(spelt)
            ids = list(compress(ids, spelt))
        longest = max(map(len, ids), default=0)
        if longest > card.max_source_length:
            raise TextTooLongError(field, "max_source_length", card.max_source_length, longest)
        requests = (
            DecodeRequest(source_ids, _bounded(options, len(source_ids), card.max_target_length))
            for source_ids in ids
        )
        return cls(document, target, tuple(requests), encode_seconds)

    @property
    def sources(self) -> Sequence[str]:
        """The sentence that each request is for; of those of a text in its own language nothing is asked."""
        return self.document.sentences[: len(self.requests)]

    def rebuild(self, sentences: Sequence[SentenceTranslation]) -> Translation:
        """Put the text together again, from what became of each request.

        Alternative i is made of hypothesis i of every sentence; a sentence that has fewer
        contributes its best.
        """
        if not self.requests:
            return Translation(self.document.rebuild(self.document.sentences))
        texts = [sentence.texts for sentence in sentences]
        best = self._ranked(texts, 0)
        others = dict.fromkeys(self._ranked(texts, rank) for rank in range(1, max(map(len, texts))))
        return Translation(
            text=best,
            alternatives=tuple(text for text in others if text != best),
            score=_score_per_token([sentence.best for sentence in sentences]),
            sentences=tuple(sentences),
        )

    def _ranked(self, texts: Sequence[Sequence[str]], rank: int) -> str:
        translations = [ranked[rank if rank < len(ranked) else 0] for ranked in texts]
        return self.document.rebuild(translations, target_language=self.target)


def sentences_of(
    passages: Sequence[Passage], results: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer
) -> list[SentenceTranslation]:
    """What became of the sentences of several passages, from the results of all their requests in order.

    Raises:
        DecodingError: If a sentence has no hypothesis.
    """
    asked = (
        (source, passage.target, request)
        for passage in passages
        for source, request in zip(passage.sources, passage.requests, strict=True)
    )
    return [
        SentenceTranslation.of(source, target, request, result, tokenizer)
        for (source, target, request), result in zip(asked, results, strict=True)
    ]


def rebuild_all(passages: Sequence[Passage], sentences: Sequence[SentenceTranslation]) -> list[Translation]:
    """Put several passages together again, from what became of all their requests in order."""
    remaining = iter(sentences)
    return [passage.rebuild(list(islice(remaining, len(passage.requests)))) for passage in passages]


def resolve_pair(card: ModelCard, source: str, target: str) -> Pair:
    """The checkpoint's own codes for the languages a caller names: `EN` and `en-GB` mean `en`, `pt` `pt-BR`.

    Source = target is allowed for each language the checkpoint knows.

    Raises:
        UnsupportedLanguageError: If the checkpoint does not translate this direction.
    """
    source, target = resolve_code(card, source), resolve_code(card, target)
    if source != target or source not in card.languages:
        card.require_pair(source, target)
    return source, target


def resolve_code(card: ModelCard, code: str) -> str:
    """The checkpoint's own code for a language, or the bare language where it has none."""
    return known_code(code, card.languages) or canonical_code(code)


def with_alternatives(options: DecodeOptions, count: int) -> DecodeOptions:
    """The same options, asking for `count` further hypotheses; greedy search becomes beam search.

    Raises:
        ConfigError: If there cannot be as many.
    """
    if count == 0:
        return options if options.num_hypotheses == 1 else dataclasses.replace(options, num_hypotheses=1)
    if options.strategy == "sample":
        return dataclasses.replace(options, num_hypotheses=count + 1)
    beam_size = count + 1 if options.strategy == "greedy" else max(options.beam_size, count + 1)
    return dataclasses.replace(options, strategy="beam", beam_size=beam_size, num_hypotheses=count + 1)


def _bounded(options: DecodeOptions, source_length: int, limit: int) -> DecodeOptions:
    """The same options where they keep within the limit, else with the limit as `max_length`."""
    if options.length_bounds(source_length, limit)[1] < limit:
        return options
    return dataclasses.replace(options, max_length=limit, min_length=min(options.min_length, limit))


def _score_per_token(hypotheses: Sequence[Hypothesis]) -> float:
    tokens = sum(len(hypothesis.token_log_probabilities) for hypothesis in hypotheses)
    return sum(hypothesis.log_probability for hypothesis in hypotheses) / max(tokens, 1)
