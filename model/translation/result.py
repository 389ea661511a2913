"""⑦ ⑧ What became of a sentence, and of a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from model.errors import DecodingError
from model.request import DecodeRequest, Hypothesis
from model.text.addresses import with_addresses
from model.text.casing import as_written, was_read_small
from model.text.tokenizer import Tokenizer
from model.translation.quality_checks import Kind, diagnose


@dataclass(frozen=True)
class Diagnosis:
    """Why a sentence's first translation looked broken, and what was done about it.

    Attributes:
        kind: What was wrong.
        retried: Whether it was translated a second time.
        kept: Whether the second translation was better and took its place.
    """

    kind: Kind
    retried: bool = False
    kept: bool = False


@dataclass(frozen=True)
class SentenceTranslation:
    """One sentence of a text and what the decoder made of it.

    Attributes:
        source: The sentence as it stood in the text.
        target: Language that it was translated into.
        request: What the decoder was asked.
        hypotheses: Its answers, best first, at least one.
        texts: Text of each, with the capitals and the addresses of the source.
        diagnosis: What looked broken; None where nothing did.
    """

    source: str
    target: str
    request: DecodeRequest
    hypotheses: tuple[Hypothesis, ...]
    texts: tuple[str, ...]
    diagnosis: Diagnosis | None = None

    @classmethod
    def of(
        cls,
        source: str,
        target: str,
        request: DecodeRequest,
        result: Sequence[Hypothesis],
        tokenizer: Tokenizer,
    ) -> Self:
        """A sentence with what came of it.

        Raises:
            DecodingError: If that is nothing.
        """
        if not result:
            raise DecodingError("the search found no translation of a sentence")
        was_small = was_read_small(source, target, request.source_ids, tokenizer)
        texts = tuple(
            finished_text(tokenizer.decode(hypothesis.token_ids), source, target, was_small=was_small)
            for hypothesis in result
        )
        kind = diagnose(source, request.source_ids, result[0], texts[0])
        return cls(source, target, request, tuple(result), texts, Diagnosis(kind) if kind else None)

    @property
    def best(self) -> Hypothesis:
        """The best hypothesis."""
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """Text of the best."""
        return self.texts[0]


def finished_text(decoded: str, source: str, target: str, *, was_small: bool = False) -> str:
    """What the decoder wrote, in capitals where its source is, and with the addresses of the source."""
    return with_addresses(as_written(decoded, source, target, was_small=was_small), source)


@dataclass(frozen=True)
class Translation:
    """One text, translated.

    Attributes:
        text: The best translation.
        alternatives: Further ones, best first, all different; as many as were asked for where
            the search found as many.
        score: Natural log-probability per token of the whole text, EOS included; None where
            nothing was decoded (a blank text, or source = target).
        sentences: What each sentence became.
    """

    text: str
    alternatives: tuple[str, ...] = ()
    score: float | None = None
    sentences: tuple[SentenceTranslation, ...] = ()

    @property
    def is_finished(self) -> bool:
        """Whether no sentence was ended by its length limit."""
        return all(sentence.best.finished for sentence in self.sentences)
