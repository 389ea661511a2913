"""ⓕ How good the network is: held-out text translated with the real decoder, and its loss."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from model.errors import TranslationError
from model.gilding import find_golden
from model.golden import GoldenSentence
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer
from model.training.data.batches import Batch
from model.training.data.config import CorpusConfig
from model.training.data.corpus import read_pairs
from model.training.reporting.scores import TranslationScores, score_translations
from model.training.run_config import Metric, Precision
from model.training.update import autocast, sequence_loss
from model.transformer import Transformer

Decode = Callable[[Sequence[DecodeRequest]], list[list[Hypothesis] | TranslationError]]
"""The decoding engine: for each request its hypotheses, or why there are none."""


@dataclass(frozen=True)
class HeldOut:
    """Sentences of one direction, with their references.

    Attributes:
        source_language: Code.
        target_language: Code.
        sources: To translate.
        references: One for each.
    """

    source_language: str
    target_language: str
    sources: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """One translation to look at."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class DirectionResult:
    """How one direction fared.

    Attributes:
        source_language: Code.
        target_language: Code.
        scores: Of all its translations.
        untranslated: Sentences the decoder refused, too long ones for example; they count as empty.
        samples: Some translations to look at.
    """

    source_language: str
    target_language: str
    scores: TranslationScores
    untranslated: int
    samples: tuple[Sample, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the journal."""
        samples = [vars(sample) for sample in self.samples]
        return {**vars(self.scores), "untranslated": self.untranslated, "samples": samples}


@dataclass(frozen=True)
class ValidationResult:
    """What a validation found.

    Attributes:
        cross_entropy: −log P of the references a target token, in nats; exp of it is the perplexity.
        directions: One for each direction translated.
        seconds: How long it took.
    """

    cross_entropy: float
    directions: tuple[DirectionResult, ...]
    seconds: float

    def score(self, metric: Metric) -> float:
        """Mean of a metric over the directions."""
        values = [getattr(direction.scores, metric) for direction in self.directions]
        return float(sum(values) / len(values))

    def summary(self) -> str:
        """One line for people."""
        scores = (
            f"{d.source_language}→{d.target_language} BLEU {d.scores.bleu:.2f}, chrF {d.scores.chrf:.2f}"
            for d in self.directions
        )
        return "; ".join([*scores, f"cross entropy {self.cross_entropy:.3f}, {self.seconds:.0f} s"])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the journal."""
        by_pair = {f"{d.source_language}-{d.target_language}": d for d in self.directions}
        return {
            "cross_entropy": self.cross_entropy,
            "bleu": self.score("bleu"),
            "chrf": self.score("chrf"),
            "seconds": round(self.seconds, 1),
            "directions": {pair: direction.to_dict() for pair, direction in by_pair.items()},
        }


def held_out_texts(corpora: Sequence[CorpusConfig], max_sentences: int) -> tuple[HeldOut, ...]:
    """The validation corpora by direction, each at most `max_sentences` long (0: all of them)."""
    texts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for corpus in corpora:
        pairs = list(islice(read_pairs(corpus), max_sentences or None))
        for direction in corpus.directions:
            is_forward = direction[0] == corpus.source_language
            sides = pairs if is_forward else [(target, source) for source, target in pairs]
            texts.setdefault(direction, []).extend(sides)
    return tuple(
        HeldOut(*direction, tuple(s for s, _ in sides), tuple(t for _, t in sides))
        for direction, sides in texts.items()
    )


def encode_source(tokenizer: Tokenizer, text: str, target_language: str) -> list[int]:
    """What the network reads: the target language's tag if the vocabulary has tags, pieces, EOS."""
    return tokenizer.encode(text, target_language=target_language if tokenizer.language_tags else None)


class Validator:
    """Translates the held-out text with given weights and measures their loss.

    Args:
        network: A second network, so that the one in training is left alone.
        decode: The decoder, running `network`.
        tokenizer: The run's.
        held_out: What to translate.
        loss_batches: The same text as batches, on the network's device.
        options: How to translate.
        precision: Of the matrix products of the loss.
        samples: Translations to keep for each direction.
    """

    def __init__(
        self,
        network: Transformer,
        decode: Decode,
        tokenizer: Tokenizer,
        *,
        held_out: Sequence[HeldOut],
        loss_batches: Sequence[Batch],
        options: DecodeOptions,
        precision: Precision,
        samples: int,
    ) -> None:
        self._network = network.eval()
        self._decode = decode
        self._tokenizer = tokenizer
        self._held_out = held_out
        self._loss_batches = loss_batches
        self._options = options
        self._precision = precision
        self._samples = samples

    @torch.inference_mode()
    def validate(self, weights: Mapping[str, Tensor]) -> ValidationResult:
        """Judge these weights (names as in the network; tied ones once)."""
        started = time.monotonic()
        for name, weight in self._network.named_parameters():
            weight.copy_(weights[name])
        cross_entropy = self._measure_loss()
        directions = tuple(self._translate(texts) for texts in self._held_out)
        return ValidationResult(cross_entropy, directions, time.monotonic() - started)

    def golden_sentences(self) -> tuple[GoldenSentence, ...]:
        """Those of the weights that were judged last."""
        pairs = [(texts.source_language, texts.target_language) for texts in self._held_out]
        return find_golden(pairs, self._decode, self._tokenizer)

    def _measure_loss(self) -> float:
        total, num_labels = 0.0, 0
        for batch in self._loss_batches:
            with autocast(batch.labels_NT.device, self._precision):
                loss = sequence_loss(self._network, batch, self._network.config, smoothing=0.0)
            total += float(loss.cross_entropy)
            num_labels += batch.num_target_tokens
        return total / max(num_labels, 1)

    def _translate(self, texts: HeldOut) -> DirectionResult:
        requests = [
            DecodeRequest(tuple(encode_source(self._tokenizer, text, texts.target_language)), self._options)
            for text in texts.sources
        ]
        found = self._decode(requests)
        translations = [self._text(result) for result in found]
        scores = score_translations(translations, texts.references, texts.target_language)
        rows = zip(texts.sources, texts.references, translations, strict=True)
        return DirectionResult(
            texts.source_language,
            texts.target_language,
            scores,
            untranslated=sum(isinstance(result, TranslationError) for result in found),
            samples=tuple(Sample(*row) for row in islice(rows, self._samples)),
        )

    def _text(self, result: list[Hypothesis] | TranslationError) -> str:
        if isinstance(result, TranslationError) or not result:
            return ""
        return self._tokenizer.decode(result[0].token_ids)
