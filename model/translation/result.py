"""⑦ ⑧ The translation of a sentence, and of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from model.errors import DecodingError
from model.request import DecodeRequest, Hypothesis
from model.text.source_sentence import SourceSentence
from model.text.tokenizer import Tokenizer
from model.translation.quality_checks import Kind, diagnose


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


@dataclass(frozen=True)
class SentenceTranslation:
    """A sentence of a text and its translation.

    Attributes:
        sentence: The sentence, as the network read it.
        target: Code of the target language.
        request: What the decoder was asked.
        hypotheses: The decoder's result, best first, at least one.
        texts: Text of each hypothesis, with the casing and the addresses of the source.
        diagnosis: Why the translation looked broken; None if it did not.
    """

    sentence: SourceSentence
    target: str
    request: DecodeRequest
    hypotheses: tuple[Hypothesis, ...]
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
        texts = tuple(
            sentence.finish(tokenizer.decode(hypothesis.token_ids), target) for hypothesis in result
        )
        kind = diagnose(sentence.cleaned, request.source_ids, result[0], texts[0])
        return cls(sentence, target, request, tuple(result), texts, Diagnosis(kind) if kind else None)

    @property
    def source(self) -> str:
        """The sentence as it stands in the text."""
        return self.sentence.text

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """Text of the best hypothesis."""
        return self.texts[0]


class Translation(str):
    """A translated text: a string, with what is known about it as attributes.

    Attributes:
        alternatives: Further translations, best first, all different; at most as many as were asked for.
        score: Natural log-probability per token of the whole text, EOS included; None if nothing was
            decoded (a blank text, or source = target).
        sentences: The translation of each sentence.
    """

    alternatives: tuple[str, ...]
    score: float | None
    sentences: tuple[SentenceTranslation, ...]

    def __new__(
        cls,
        text: str,
        alternatives: tuple[str, ...] = (),
        score: float | None = None,
        sentences: tuple[SentenceTranslation, ...] = (),
    ) -> Self:
        """Makes a string that carries the attributes."""
        translation = super().__new__(cls, text)
        translation.alternatives, translation.score, translation.sentences = alternatives, score, sentences
        return translation

    @property
    def text(self) -> str:
        """The best translation as a plain string."""
        return str(self)

    @property
    def is_finished(self) -> bool:
        """Whether no sentence was ended by its length limit."""
        return all(sentence.best.finished for sentence in self.sentences)
