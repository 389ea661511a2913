"""② ③ A text becomes decode requests; ⑥ ⑦ ⑧ hypotheses become a text again. No torch.

`Translator` and the service both use these steps, so their translations are equal.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress, islice
from typing import NamedTuple, Self

from model.checkpoint.card import ModelCard, Pair
from model.decode_request import (
    MAX_PHRASE_TOKENS,
    MAX_PHRASES,
    DecodeOptions,
    DecodeRequest,
    Hypothesis,
    Phrase,
)
from model.errors import TextTooLongError
from model.text.document import Document, Splitting, middle
from model.text.glossary import Glossary
from model.text.languages import canonical_code, is_in_other_scripts, known_code
from model.text.source_sentence import SourceSentence
from model.text.tokenizer import Tokenizer
from model.translation.result import SentenceTranslation, Translation


class DocumentTranslation(NamedTuple):
    """A text that is being translated: its sentences, the gaps between them, and the decode requests.

    Attributes:
        document: The sentences and the gaps.
        target: Code of the target language.
        sentences: The sentences to decode; none if the text comes back unchanged.
        requests: One for each of `sentences`.
        encode_seconds: Time spent on token ids.
    """

    document: Document
    target: str
    sentences: tuple[SourceSentence, ...]
    requests: tuple[DecodeRequest, ...]
    encode_seconds: float = 0.0

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
        keep: Sequence[str] = (),
        glossary: Glossary | None = None,
        divides: bool = True,
    ) -> Self:
        """Splits a text and encodes its sentences.

        A sentence that the vocabulary cannot spell, that is in other scripts than Latin and that of its
        language, or that has no word but kept strings, comes back unchanged, whatever its length. Another one
        of more tokens than `card.max_source_length` is divided at a clause, else at a word.

        Args:
            text: Any text; a blank one needs no decoding.
            tokenizer: The checkpoint's tokenizer.
            card: The checkpoint's card, for its limits.
            pair: Source and target as `resolve_pair` returns them; equal codes leave the text unchanged.
            options: How to decode every sentence; `card.max_target_length` bounds them.
            field: Name of the text in error messages, e.g. `q[3]`.
            splitting: Where the sentences end.
            keep: Strings that are not translated, in addition to placeholders and the like.
            glossary: Terms with a given translation.
            divides: Whether sentences over the limit are divided.

        Raises:
            TextTooLongError: If a sentence is over the limit and cannot be divided.
        """
        source, target = pair
        if source == target:
            return cls(Document(language=source, sentences=(), gaps=(text,)), target, (), ())
        document = Document.split(text, source, splitting)
        began = time.monotonic()
        read = partial(SourceSentence.read, pair=pair, tokenizer=tokenizer, keep=keep, glossary=glossary)
        sentences = [read(each) for each in document.sentences]
        encode_seconds = time.monotonic() - began
        spelt = [
            each.has_words and tokenizer.can_spell(each.ids) and not is_in_other_scripts(each.text, source)
            for each in sentences
        ]
        if not all(spelt):
            document = document.keeping(spelt)
            sentences = list(compress(sentences, spelt))
        longest = max((len(sentence.ids) for sentence in sentences), default=0)
        if divides and longest > card.max_source_length:
            parts = [list(_parts(each, read, card.max_source_length)) for each in document.sentences]
            document = document.dividing(parts)
            sentences = [read(each) for each in document.sentences]
            longest = max(len(sentence.ids) for sentence in sentences)
        if longest > card.max_source_length:
            raise TextTooLongError(field, "max_source_length", card.max_source_length, longest)
        start_ids = tokenizer.target_prefix(source, target) if sentences else ()
        requests = (
            DecodeRequest(
                sentence.ids,
                _options(options, sentence, card.max_target_length),
                start_ids=start_ids,
                phrases=_phrases(sentence, tokenizer) if sentence.terms else (),
                word_parts=tokenizer.word_parts if sentence.terms else b"",
            )
            for sentence in sentences
        )
        return cls(document, target, tuple(sentences), tuple(requests), encode_seconds)

    def rebuild(self, sentences: Sequence[SentenceTranslation]) -> Translation:
        """Puts the text together again from the translation of each request.

        Alternative i consists of hypothesis i of every sentence; a sentence that has fewer contributes its
        best hypothesis.
        """
        if not self.requests:
            return Translation(self.document.rebuild(self.document.sentences))
        texts = [sentence.texts for sentence in sentences]
        best = self._ranked(texts, 0)
        others = dict.fromkeys(self._ranked(texts, rank) for rank in range(1, max(map(len, texts))))
        return Translation(
            best,
            alternatives=tuple(text for text in others if text != best),
            sentences=tuple(sentences),
        )

    def _ranked(self, texts: Sequence[Sequence[str]], rank: int) -> str:
        translations = [ranked[rank if rank < len(ranked) else 0] for ranked in texts]
        return self.document.rebuild(translations, target_language=self.target)


def _parts(sentence: str, read: Callable[[str], SourceSentence], limit: int) -> Iterator[str]:
    """Yields the parts of a sentence, which joined are the sentence, each of at most `limit` tokens."""
    text = sentence.rstrip()
    if len(text) < 2 or len(read(text).ids) <= limit:
        yield sentence
        return
    place = middle(text)
    place += len(text[place:]) - len(text[place:].lstrip())
    yield from _parts(sentence[:place], read, limit)
    yield from _parts(sentence[place:], read, limit)


def sentences_of(
    documents: Sequence[DocumentTranslation], results: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer
) -> list[SentenceTranslation]:
    """Returns the translated sentences of several texts, from the results of all their requests in order.

    Raises:
        DecodingError: If a sentence has no hypothesis.
    """
    remaining = iter(results)
    return [
        SentenceTranslation.of(sentence, document.target, request, next(remaining), tokenizer)
        for document in documents
        for sentence, request in zip(document.sentences, document.requests, strict=True)
    ]


def rebuild_all(
    documents: Sequence[DocumentTranslation], sentences: Sequence[SentenceTranslation]
) -> list[Translation]:
    """Puts several texts together again, from the translations of all their requests in order."""
    remaining = iter(sentences)
    return [document.rebuild(list(islice(remaining, len(document.requests)))) for document in documents]


def resolve_pair(card: ModelCard, source: str, target: str) -> Pair:
    """Returns the checkpoint's codes for the languages that a caller names.

    `EN` and `en-GB` mean `en`, and `pt` means `pt-BR` if the checkpoint has only that. Source and target may
    be the same language if the checkpoint knows it.

    Raises:
        UnsupportedLanguageError: If the checkpoint does not translate this direction.
    """
    source, target = resolve_code(card, source), resolve_code(card, target)
    if source != target or source not in card.languages:
        card.require_pair(source, target)
    return source, target


def resolve_code(card: ModelCard, code: str) -> str:
    """Returns the checkpoint's code for a language, or the bare language code if it has none."""
    return known_code(code, card.languages) or canonical_code(code)


def with_alternatives(options: DecodeOptions, count: int) -> DecodeOptions:
    """Returns the options with `count` further hypotheses; greedy search becomes beam search.

    Raises:
        ConfigError: If so many are not possible.
    """
    if count == 0:
        return options if options.num_hypotheses == 1 else dataclasses.replace(options, num_hypotheses=1)
    if options.strategy == "sample":
        return dataclasses.replace(options, num_hypotheses=count + 1)
    beam_size = count + 1 if options.strategy == "greedy" else max(options.beam_size, count + 1)
    return dataclasses.replace(options, strategy="beam", beam_size=beam_size, num_hypotheses=count + 1)


def _options(options: DecodeOptions, sentence: SourceSentence, limit: int) -> DecodeOptions:
    """Returns the options of a sentence: with an alignment for its tags, and bounded by the limit.

    Terms of a glossary that the network would not have produced lower the score. Divided by its length, the
    score would prefer longer translations, which append the terms and repeat themselves.
    """
    if sentence.tags:
        options = dataclasses.replace(options, return_alignment=True)
    if sentence.terms:
        options = dataclasses.replace(options, length_penalty=0.0)
    if options.length_bounds(len(sentence.ids), limit)[1] < limit:
        return options
    return dataclasses.replace(options, max_length=limit, min_length=min(options.min_length, limit))


def _phrases(sentence: SourceSentence, tokenizer: Tokenizer) -> tuple[Phrase, ...]:
    """Returns the translations of a sentence's terms for the decoder, as many as it accepts."""
    phrases: list[Phrase] = []
    num_tokens = 0
    for term in sentence.terms:
        phrase = term.spellings(tokenizer)
        num_tokens += sum(map(len, phrase))
        if phrase and num_tokens <= MAX_PHRASE_TOKENS and len(phrases) < MAX_PHRASES:
            phrases.append(phrase)
    return tuple(phrases)
