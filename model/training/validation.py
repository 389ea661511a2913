"""ⓕ Validation: held-out text is translated with the decoder of the service, its loss measured.

Only BLEU or chrF choose the best weights, because translations still improve while the validation loss
rises (ChineseNMT: loss 3.93 → 4.10 while BLEU went 25.4 → 26.1).
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from model.checkpoint.self_test import SelfTestSentence, find_self_test
from model.checkpoint.weights_writer import stored
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.device import available_cores
from model.decoding.engine import DecodingEngine
from model.decoding.factory import native_factory, torch_engine
from model.decoding.runner import Result
from model.errors import NativeError, TranslationError
from model.evaluation import HeldOut, Metric
from model.evaluation.scores import TranslationScores, mean_score, score_translations
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.config_sections import Precision
from model.training.data.batches import Batch
from model.training.distributed.world import SINGLE_PROCESS, World
from model.training.optimisation.objective import Smoothing
from model.training.optimisation.step import autocast, sequence_loss
from model.translation.translator import decode_in_parallel

logger = logging.getLogger(__name__)


class Row(NamedTuple):
    """One sentence with its reference and its translation."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class TranslatedText(HeldOut):
    """Held-out sentences with their translations.

    Attributes:
        translations: One for each source; empty where the decoder refused the source.
    """

    translations: tuple[str, ...]

    def rows(self) -> Iterator[Row]:
        """The sentences one by one."""
        for row in zip(self.sources, self.references, self.translations, strict=True):
            yield Row(*row)


@dataclass
class EarlyStopping:
    """Counts validations since the best score.

    Attributes:
        patience: Stop after this many validations without a better score; 0 never stops.
        best: Highest score so far; None before the first.
        validations_since_best: Consecutive validations that did not beat it.
    """

    patience: int
    best: float | None = None
    validations_since_best: int = 0

    def record(self, score: float) -> bool:
        """Record a validation's score; returns whether it is the best so far."""
        if self.best is None or score > self.best:
            self.best, self.validations_since_best = score, 0
            return True
        self.validations_since_best += 1
        return False

    @property
    def exhausted(self) -> bool:
        """Returns whether the patience has run out."""
        return 0 < self.patience <= self.validations_since_best


@dataclass(frozen=True)
class DirectionResult:
    """Translations of one direction and their scores.

    Attributes:
        text: Sources, references and translations.
        scores: Scores of all translations.
        untranslated: Number of sentences that the decoder refused, because they are too long for example;
            they count as empty translations.
    """

    text: TranslatedText
    scores: TranslationScores
    untranslated: int

    def to_dict(self, samples: int) -> dict[str, Any]:
        """Plain values for the log, with the first `samples` translations."""
        shown = [row._asdict() for row in islice(self.text.rows(), samples)]
        return {**vars(self.scores), "untranslated": self.untranslated, "samples": shown}


@dataclass(frozen=True)
class ValidationResult:
    """Loss and translations of a validation.

    Attributes:
        cross_entropy: −log P of the references per target token, in nats; its exp is the perplexity.
        directions: One for each direction.
        decoder: Name and precision of the decoder.
        seconds: Duration.
        self_test: Sentences that these weights are sure of, for the checkpoint's self-test.
    """

    cross_entropy: float
    directions: tuple[DirectionResult, ...]
    decoder: str
    seconds: float
    self_test: tuple[SelfTestSentence, ...] = ()

    @property
    def texts(self) -> tuple[TranslatedText, ...]:
        """Sources, references and translations of each direction."""
        return tuple(direction.text for direction in self.directions)

    def score(self, metric: Metric) -> float:
        """Mean of a metric over the directions."""
        return mean_score([direction.scores for direction in self.directions], metric)

    def summary(self) -> str:
        """One line for the progress log."""
        scores = (
            f"{'→'.join(d.text.direction)} BLEU {d.scores.bleu:.2f}, chrF {d.scores.chrf:.2f}"
            for d in self.directions
        )
        return "; ".join([*scores, f"cross entropy {self.cross_entropy:.3f}, {self.seconds:.0f} s"])

    def to_dict(self, samples: int = 0) -> dict[str, Any]:
        """Plain values for the log, with the first `samples` translations of each direction."""
        return {
            "cross_entropy": self.cross_entropy,
            "bleu": self.score("bleu"),
            "chrf": self.score("chrf"),
            "decoder": self.decoder,
            "seconds": round(self.seconds, 1),
            "directions": {direction.text.pair: direction.to_dict(samples) for direction in self.directions},
        }


@dataclass(frozen=True)
class ValidationDecoder:
    """Translates with the weights of one validation, on engines that decode in parallel.

    Attributes:
        name: Library and precision, for the log.
        engines: Engines over the same weights.
    """

    name: str
    engines: Sequence[DecodingEngine]

    def decode(self, requests: Sequence[DecodeRequest]) -> list[Result]:
        """The hypotheses of each request, or the error why there are none."""
        return decode_in_parallel(self.engines, requests)

    def close(self) -> None:
        """Free the memory of the engines."""
        for engine in self.engines:
            engine.close()


NewDecoder = Callable[[Transformer], ValidationDecoder]
"""Makes a decoder of a network's current weights."""


def new_decoder(network: Transformer, *, never_produced: Collection[int] = ()) -> ValidationDecoder:
    """The fastest decoder whose translations equal those of PyTorch in float32.

    On a CPU that is the native library in float32, with one engine per numeric thread. On a GPU, and for
    networks that the library does not support, it is PyTorch.

    Args:
        network: Network in evaluation mode; its weights may change once the decoder is closed.
        never_produced: See NativeRunner.
    """
    device = network.output.weight.device
    if device.type == "cpu":
        try:
            return _native(network, never_produced)
        except NativeError as reason:
            logger.info("validating with PyTorch, not natively: %s", reason)
    name = f"torch {str(network.output.weight.dtype).removeprefix('torch.')}"
    return ValidationDecoder(name, [torch_engine(network, device=device, never_produced=never_produced)])


def _native(network: Transformer, never_produced: Collection[int]) -> ValidationDecoder:
    weights = {name: stored(name, parameter) for name, parameter in network.named_parameters()}
    factory = native_factory(network.config, weights, "float32", never_produced=never_produced)
    num_engines = min(available_cores(), torch.get_num_threads())
    return ValidationDecoder("native float32", [factory.make() for _ in range(num_engines)])


class Validator:
    """Translates held-out text with given weights, and measures their loss.

    Args:
        network: Overwritten with the weights; not the one in training.
        new_decoder: Makes a decoder of the network.
        tokenizer: The run's tokenizer.
        held_out: Text to translate.
        loss_batches: All of that text as batches, on the network's device.
        options: Decoding options.
        precision: Number type of the matrix products of the loss.
        world: The processes that validate together. Each works on a shard of the sentences and batches of the
            same weights, and all get the same result.
    """

    def __init__(
        self,
        network: Transformer,
        new_decoder: NewDecoder,
        tokenizer: Tokenizer,
        *,
        held_out: Sequence[HeldOut],
        loss_batches: Sequence[Batch],
        options: DecodeOptions,
        precision: Precision,
        world: World = SINGLE_PROCESS,
    ) -> None:
        self._network = network.eval()
        self._new_decoder = new_decoder
        self._tokenizer = tokenizer
        self._held_out = held_out
        self._loss_batches = world.shard(loss_batches)
        self._options = options
        self._precision = precision
        self._world = world

    @torch.inference_mode()
    def validate(self, weights: Mapping[str, Tensor]) -> ValidationResult:
        """Validate weights, by their names in the network; tied weights have one name."""
        started = time.monotonic()
        for name, weight in self._network.named_parameters():
            weight.copy_(weights[name])
        cross_entropy = self._measure_loss()
        with closing(self._new_decoder(self._network)) as decoder:
            directions = tuple(self._translate(texts, decoder) for texts in self._held_out)
            pairs = [text.direction for text in self._held_out]
            self_test = find_self_test(pairs, decoder.decode, self._tokenizer)
        seconds = time.monotonic() - started
        return ValidationResult(cross_entropy, directions, decoder.name, seconds, self_test)

    def _measure_loss(self) -> float:
        sums = torch.zeros(2, dtype=torch.float64)  # of the loss and of the tokens
        smoothing = Smoothing.of(self._network.config, 0.0)
        for batch in self._loss_batches:
            with autocast(batch.labels_NT.device, self._precision):
                loss = sequence_loss(self._network, batch, smoothing)
            sums += torch.tensor([float(loss.cross_entropy), batch.num_target_tokens], dtype=torch.float64)
        self._world.sum_(sums)
        total, num_labels = sums.tolist()
        return float(total / max(num_labels, 1))

    def _translate(self, text: HeldOut, decoder: ValidationDecoder) -> DirectionResult:
        encoded = (
            self._tokenizer.encode(source, target_language=text.target_language)
            for source in self._world.shard(text.sources)
        )
        requests = [DecodeRequest(tuple(ids), self._options) for ids in encoded]
        found = self._world.gather([self._text(result) for result in decoder.decode(requests)])
        translations = tuple(each or "" for each in found)
        return DirectionResult(
            TranslatedText(**vars(text), translations=translations),
            score_translations(translations, [text.references], text.target_language),
            untranslated=found.count(None),
        )

    def _text(self, result: Result) -> str | None:
        """The text of a translation; None if the decoder refused the source."""
        if isinstance(result, TranslationError):
            return None
        return self._tokenizer.decode(result[0].token_ids) if result else ""
