"""② … ⑧ `Translator`, the synchronous face of decoding: texts in, translations out.

The service takes the same steps around its own queue; `document_translation` keeps the
answers equal.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Self

from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.decoding.device import Precision, available_cores
from model.decoding.engine import DecodingEngine
from model.decoding.factory import EngineFactory, engine_factory
from model.decoding.runner import Result
from model.errors import TextTooLongError, TranslationError
from model.request import DecodeOptions, DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer
from model.translation.document_translation import (
    DocumentTranslation,
    rebuild_all,
    resolve_pair,
    sentences_of,
)
from model.translation.result import SentenceTranslation, Translation
from model.translation.second_attempt import better_of, second_request


def decode_in_parallel(
    engines: Sequence[DecodingEngine],
    requests: Sequence[DecodeRequest],
    progress: Callable[[int], object] | None = None,
) -> list[Result]:
    """See DecodingEngine.decode; every engine gets equally many sentences of each length.

    Args:
        engines: At least one, all idle and over the same network.
        requests: Any mix of lengths and options.
        progress: Called with the number of requests done since the last call, by one thread at a time.
    """
    longest_first = sorted(range(len(requests)), key=lambda i: -len(requests[i].source_ids))
    shares = [longest_first[first :: len(engines)] for first in range(len(engines))]
    lock, is_over = Lock(), Event()

    def report(count: int) -> None:
        if is_over.is_set():
            raise CancelledError
        with lock:
            if progress is not None:
                progress(count)

    def decode(engine: DecodingEngine, share: Sequence[int]) -> list[Result]:
        return engine.decode([requests[i] for i in share], progress=report)

    with ThreadPoolExecutor(len(engines)) as pool:
        decoding = [pool.submit(decode, *each) for each in zip(engines, shares, strict=True)]
        try:
            for finished in as_completed(decoding):
                finished.result()
        except BaseException:
            is_over.set()  # nobody waits for what the others would still find
            raise
    parts = [each.result() for each in decoding]
    results = dict(
        pair for share, part in zip(shares, parts, strict=True) for pair in zip(share, part, strict=True)
    )
    return [results[i] for i in range(len(requests))]


Progress = Callable[[int], object]


@dataclass(frozen=True, kw_only=True)
class Translator:
    """A checkpoint, ready to translate on one device.

    Attributes:
        engines: Decode sentences side by side, one a thread.
        tokenizer: Text ↔ token ids.
        card: Name, pairs, limits, decoding defaults.
        checksum: SHA-256 of the checkpoint.
        device: Where the network runs: `cpu`, `cuda` or `cuda:N`.
        precision: What it computes in.
        num_parameters: Of the network, tied ones counted once.
        retries: Whether what looks broken is translated a second time.
    """

    engines: Sequence[DecodingEngine]
    tokenizer: Tokenizer
    card: ModelCard
    checksum: str
    device: str
    precision: Precision
    num_parameters: int
    retries: bool = True

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        device: str = "auto",
        precision: str = "auto",
        shortlist: bool = False,
        retries: bool = True,
    ) -> Self:
        """Check a checkpoint folder and load it.

        Args:
            folder: Checkpoint folder.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            precision: `auto`, `float32`, `bfloat16`, `float16` or `int8`.
            shortlist: Produce only what the checkpoint's shortlist has for a sentence.
            retries: Translate a second time what looks broken, where no options are given.

        Raises:
            ConfigError: If this machine has no such device, or it cannot compute so; or if the checkpoint
                has no shortlist, and one is asked for.
            CheckpointError: If the folder is not a whole, sound checkpoint.
        """
        checkpoint = load_checkpoint(folder)
        factory = engine_factory(checkpoint, device=device, precision=precision, shortlist=shortlist)
        return cls.of(checkpoint, factory, retries=retries)

    @classmethod
    def of(cls, checkpoint: Checkpoint, factory: EngineFactory, *, retries: bool = True) -> Self:
        """A checkpoint whose network is in memory already.

        Args:
            checkpoint: As loaded.
            factory: Of its network; makes an engine for each core where that pays.
            retries: See `load`.
        """
        return cls(
            engines=[factory.make() for _ in range(available_cores() if factory.is_native else 1)],
            tokenizer=checkpoint.tokenizer,
            card=checkpoint.card,
            checksum=checkpoint.checksum,
            device=factory.device,
            precision=factory.precision,
            num_parameters=checkpoint.num_parameters,
            retries=retries,
        )

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str,
        target: str,
        options: DecodeOptions | None = None,
        fields: Sequence[str] | None = None,
        too_long: Callable[[str], object] | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """Translate texts of any length, each sentence on its own; all of them share batches.

        White space around and between sentences comes back as it was, and so does a blank text. Without
        options, a sentence whose translation looks broken is translated a second time (`second_attempt`).

        Args:
            texts: Sentences or whole documents.
            source: Language code; `en-GB` and `EN` mean `en`.
            target: Language code; the same as `source` leaves the texts unchanged.
            options: How to decode; None takes the checkpoint's own.
            fields: What to call each text in an error; None calls them `q[0]`, `q[1]`, ….
            too_long: Called with the name of each text that has a sentence over the checkpoint's limit; all
                that comes back of it are the line breaks at its end. None raises.
            progress: Called with the number of sentences done since the last call.

        Returns:
            One translation a text, in order.

        Raises:
            UnsupportedLanguageError: If the checkpoint does not translate this direction.
            TextTooLongError: If a sentence is over that limit and `too_long` is None; names the text.
            InputError: If the network cannot read a sentence; see `decode`.
            DecodingError: If a sentence failed; see `decode`.
        """
        pair = resolve_pair(self.card, source, target)
        read = partial(
            DocumentTranslation.read,
            tokenizer=self.tokenizer,
            card=self.card,
            pair=pair,
            options=options or self.card.decoding,
        )
        passages = []
        for text, field in zip(texts, fields or _default_fields(len(texts)), strict=True):
            try:
                passages.append(read(text, field=field))
            except TextTooLongError:
                if too_long is None:
                    raise
                too_long(field)
                passages.append(read(text[len(text.rstrip("\r\n")) :], field=field))
        requests = [request for passage in passages for request in passage.requests]
        sentences = sentences_of(passages, self.decode(requests, progress=progress), self.tokenizer)
        if self.retries and options is None:
            sentences = self._improved(sentences)
        return rebuild_all(passages, sentences)

    def decode(
        self, requests: Sequence[DecodeRequest], *, progress: Progress | None = None
    ) -> list[list[Hypothesis]]:
        """Decode sentences that are token ids already.

        Args:
            requests: In any order, with any mix of options.
            progress: Called with the number of sentences done since the last call.

        Returns:
            For each request its hypotheses, best first, in the order of the requests.

        Raises:
            InputError: If the network cannot read a request.
            DecodingError: If its output for one is not a number, or the options forbid every token.
        """
        decoded = []
        for result in decode_in_parallel(self.engines, requests, progress):
            if isinstance(result, TranslationError):
                raise result
            decoded.append(result)
        return decoded

    def _improved(self, sentences: Sequence[SentenceTranslation]) -> list[SentenceTranslation]:
        """The sentences, each that looked broken as its second attempt has it where that is better."""
        improved = list(sentences)
        again = {i: request for i, each in enumerate(sentences) if (request := second_request(each))}
        results = decode_in_parallel(self.engines, list(again.values())) if again else []
        for (i, request), result in zip(again.items(), results, strict=True):
            if not isinstance(result, TranslationError):
                improved[i] = better_of(improved[i], request, result, self.tokenizer)
        return improved


def _default_fields(count: int) -> list[str]:
    return [f"q[{i}]" for i in range(count)]
