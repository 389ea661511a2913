"""⑤ The decoding engine: requests in, hypotheses out, in the same order; knows no text."""

from collections.abc import Collection, Sequence
from time import perf_counter

import torch

from model.checks import require, require_integer
from model.decoding.batches import plan_batches
from model.decoding.network import Network
from model.decoding.observer import Observer, SilentObserver
from model.decoding.runner import Result
from model.decoding.running import RunningBatch
from model.decoding.score import score_translations
from model.decoding.sentence import Sentence
from model.errors import InputError
from model.request import DecodeRequest


class DecodingEngine:
    """Decodes sentences in batches; greedy, sampled and beam requests share them.

    What a sentence becomes does not depend on the others: options, random numbers and stop rules
    are its own, padding is masked, and a sentence whose numbers break fails alone.

    Args:
        network: An encoder-decoder in evaluation mode.
        device: Where the network lives.
        max_batch_tokens: Bound on rows × source tokens of a batch, padding charged.
        never_produced: Target ids that no translation may hold, beside padding and BOS: language
            tags, for example.

    Raises:
        ConfigError: If the network lacks an encoder or a decoder, or the bound is not positive.
    """

    def __init__(
        self,
        network: Network,
        *,
        device: torch.device | str = "cpu",
        max_batch_tokens: int = 4096,
        never_produced: Collection[int] = (),
    ) -> None:
        config = network.config
        for name in ("num_encoder_layers", "num_decoder_layers"):
            layers = getattr(config, name)
            require(layers > 0, name, "at least 1 to translate", layers)
        require_integer("max_batch_tokens", max_batch_tokens, 1)
        self._network = network
        self._device = torch.device(device)
        self._max_batch_tokens = max_batch_tokens
        self._never_produced = frozenset(never_produced)

    @torch.inference_mode()
    def decode(self, requests: Sequence[DecodeRequest], *, observer: Observer | None = None) -> list[Result]:
        """Translate every request.

        Args:
            requests: Any mix of lengths and options.
            observer: Told of durations and counts.

        Returns:
            For each request, in order, its hypotheses, best first; or the InputError or
            DecodingError that this request alone met.
        """
        watch = observer or SilentObserver()
        began = perf_counter()
        results: dict[int, Result] = {}
        places: dict[Sentence, int] = {}
        for index, request in enumerate(requests):
            try:
                sentence = Sentence.admit(request, self._network.config)
                places[sentence] = index
            except InputError as error:
                results[index] = error
        for batch in plan_batches(places, self._max_batch_tokens):
            results.update((places[sentence], result) for sentence, result in self._run(batch, watch, began))
        return [results[index] for index in range(len(requests))]

    def _run(
        self, sentences: Sequence[Sentence], watch: Observer, began: float
    ) -> list[tuple[Sentence, Result]]:
        results: list[tuple[Sentence, Result]] = []
        start = perf_counter()
        batch = RunningBatch(self._network, sentences, self._device, self._never_produced)
        watch.encoded(perf_counter() - start, len(sentences))
        while batch.sentences:
            start, running = perf_counter(), len(batch.sentences)
            finished = batch.step()
            watch.stepped(perf_counter() - start, running * batch.lanes, running)
            if batch.position == 1:
                watch.first_token(perf_counter() - began, running)
            results += finished
        return results

    @torch.inference_mode()
    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of each token of given translations; see `score_translations`."""
        return score_translations(
            self._network, sources, targets, max_batch_tokens=self._max_batch_tokens, device=self._device
        )
