"""⑦ ⑧ The translation of a sentence, and of a text; a second attempt at one that looks broken."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.errors import DecodingError
from model.text.glossary import Term
from model.text.source_sentence import SourceSentence
from model.text.tags import without_tags
from model.text.tokenizer import Tokenizer
from model.translation.quality_checks import Kind, diagnose, repeats_itself
from model.translation.tag_placement import Side, set_tags


@dataclass(frozen=True)
class Diagnosis:
    """Why the first translation of a sentence looked broken, and whether a second one replaced it.

    Attributes:
        kind: What was wrong.
        retried: Whether the sentence was translated a second time.
        kept: Whether the second translation was better and replaced the first.
    """

    kind: Kind
    retried: bool = False
    kept: bool = False


class SentenceTranslation(NamedTuple):
    """A sentence of a text and its translation.

    Attributes:
        sentence: The sentence, as the network read it.
        target: Code of the target language.
        request: What the decoder was asked.
        hypotheses: The decoder's result, best first, at least one.
        tokenizer: The checkpoint's tokenizer.
        texts: Text of each hypothesis, with the casing, the kept strings and the tags of the source.
        diagnosis: Why the translation looked broken; None if it did not.
    """

    sentence: SourceSentence
    target: str
    request: DecodeRequest
    hypotheses: tuple[Hypothesis, ...]
    tokenizer: Tokenizer
    texts: tuple[str, ...]
    diagnosis: Diagnosis | None = None

    @classmethod
    def of(
        cls,
        sentence: SourceSentence,
        target: str,
        request: DecodeRequest,
        result: Sequence[Hypothesis],
        tokenizer: Tokenizer,
    ) -> Self:
        """Turns the hypotheses of a sentence into text and checks the best one.

        Raises:
            DecodingError: If there is no hypothesis.
        """
        if not result:
            raise DecodingError("the search found no translation of a sentence")
        texts = tuple(finished_text(sentence, hypothesis, target, tokenizer) for hypothesis in result)
        best, _ = without_tags(texts[0]) if sentence.tags else (texts[0], ())
        terms = [term.target for term in sentence.terms]
        kind = diagnose(sentence.cleaned, request.source_ids, result[0], best, target, terms)
        return cls(
            sentence, target, request, tuple(result), tokenizer, texts, Diagnosis(kind) if kind else None
        )

    @property
    def source(self) -> str:
        """The sentence as it stands in the text, without tags."""
        return self.sentence.text

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.texts[0]

    @property
    def missing_terms(self) -> tuple[Term, ...]:
        """The terms of the glossary whose translation the text lacks, or has less often, each once."""
        text, _ = without_tags(self.text) if self.sentence.tags else (self.text, ())
        needed = Counter(term.target for term in self.sentence.terms)
        lacking = (term for term in self.sentence.terms if term.count_in(text) < needed[term.target])
        return tuple(dict.fromkeys(lacking))


def finished_text(sentence: SourceSentence, hypothesis: Hypothesis, target: str, tokenizer: Tokenizer) -> str:
    """Returns the text of a translation, with the casing, the kept strings and the tags of its source.

    Args:
        sentence: The source.
        hypothesis: The translation, with its alignment if the source has tags.
        target: Code of the target language.
        tokenizer: The checkpoint's tokenizer.
    """
    text = sentence.finish(tokenizer.decode(hypothesis.token_ids), target)
    if not sentence.tags:
        return text
    kept = [(string.text, string.number) for string in sentence.kept]
    source = Side(sentence.text, tokenizer.source_pieces(sentence.ids), kept)
    translation = Side(text, tokenizer.pieces(hypothesis.token_ids), kept)
    return set_tags(sentence.tags, source, translation, hypothesis.alignment or ())


class Translation(str):
    """A translated text: a string, with what is known about it as attributes.

    Attributes:
        alternatives: Further translations, best first, all different; at most as many as were asked for.
        sentences: The translation of each sentence; none if nothing was decoded (a blank text, or source =
            target).
    """

    alternatives: tuple[str, ...]
    sentences: tuple[SentenceTranslation, ...]

    def __new__(
        cls,
        text: str,
        alternatives: tuple[str, ...] = (),
        sentences: tuple[SentenceTranslation, ...] = (),
    ) -> Self:
        """Makes a string that carries the attributes."""
        translation = super().__new__(cls, text)
        translation.alternatives, translation.sentences = alternatives, sentences
        return translation

    @property
    def text(self) -> str:
        """The best translation as a plain string."""
        return str(self)

    @property
    def score(self) -> float | None:
        """Natural log-probability per token of the whole text, EOS included; None if nothing was decoded."""
        best = [sentence.best for sentence in self.sentences]
        if not best:
            return None
        tokens = sum(len(hypothesis.token_log_probabilities) for hypothesis in best)
        return sum(hypothesis.log_probability for hypothesis in best) / max(tokens, 1)

    @property
    def missing_terms(self) -> tuple[Term, ...]:
        """The terms of the glossary that a sentence contains, but its translation lacks, each once."""
        return tuple(dict.fromkeys(term for each in self.sentences for term in each.missing_terms))

    @property
    def is_finished(self) -> bool:
        """True if no sentence was ended by its length limit."""
        return all(sentence.best.finished for sentence in self.sentences)


BEAM_SIZE: Final = 4
WIDE_BEAM_SIZE: Final = 8
NO_REPEAT_NGRAM_SIZE: Final = 3
REPETITION_PENALTY: Final = 1.1
_REPETITIVE = frozenset({"loop", "unfinished", "length"})
_FAULTY_IN_PART = frozenset({"brackets", "script"})


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
    """Returns the best second translation with which nothing is wrong, or the first if there is none.

    Args:
        first: The translation that looked broken.
        request: The second request.
        result: The hypotheses of the second request.

    Returns:
        One of the two, with a diagnosis that says which.
    """
    if first.diagnosis is None or not result:
        return first
    # To set tags takes long, and does not change the words.
    plain = first.sentence._replace(tags=())
    checked = (
        SentenceTranslation.of(plain, first.target, request, [each], first.tokenizer) for each in result
    )
    place = next((place for place, each in enumerate(checked) if each.diagnosis is None), None)
    diagnosis = dataclasses.replace(first.diagnosis, retried=True, kept=place is not None)
    if place is None:
        return first._replace(diagnosis=diagnosis)
    best = result[place : place + first.request.options.num_hypotheses]
    second = SentenceTranslation.of(first.sentence, first.target, request, best, first.tokenizer)
    return second._replace(diagnosis=diagnosis)


def _stricter(options: DecodeOptions, kind: Kind) -> DecodeOptions:
    if kind in _FAULTY_IN_PART:
        beam_size = max(options.rows, WIDE_BEAM_SIZE)
        return dataclasses.replace(options, strategy="beam", beam_size=beam_size, num_hypotheses=beam_size)
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
