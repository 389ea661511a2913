"""A backend without a network: it answers with the words themselves, in capitals, and does as it is told."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from app.backend import LoadedModel, Model
from app.translation.requests import TranslationRequest
from model.checkpoint.card import ModelCard, Pair
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.runner import Progress, Result, StepRecord
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from model.text.tokenizer import TokenizerSettings

_SECONDS = 0.002


class WordTokenizer:
    """Ids by word, given out as words come; decoding gives the word in capitals."""

    eos_id = 1
    unk_id = -1
    word_parts = b""
    settings = TokenizerSettings()

    def __init__(self) -> None:
        self._words = ["<pad>", "</s>"]

    def encode(
        self,
        text: str,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        is_clean: bool = False,
    ) -> list[int]:
        return [*map(self._id, text.split()), self.eos_id]

    def encode_target(self, text: str) -> list[int]:
        return self.encode(text)

    def target_prefix(self, source_language: str, target_language: str) -> tuple[int, ...]:
        return ()

    def can_spell(self, ids: Sequence[int]) -> bool:
        """Words of Chinese or Japanese are not."""
        words = self.source_pieces(ids)[:-1]
        return 2 * sum(word[0] >= "\u3000" for word in words) <= len(words)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._words[i].upper() for i in ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._words[i].upper() for i in ids]

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        return [self._words[i] for i in ids]

    def _id(self, word: str) -> int:
        if word not in self._words:
            self._words.append(word)
        return self._words.index(word)


class DoubleBackend:
    """Its engines repeat the source, a word a step.

    Attributes:
        admitted: Every sentence that an engine took, in order, without those of the warm-up.
        cancelled: Sentences that were taken back while they were decoded.
        gate: Steps wait until it is set, as it is from the start.
        entered: Set once a step has begun.
        poison: A word that makes the step of its sentence raise.
        endless: A word that makes a sentence reach its length limit.
        stuck: A word that makes a sentence go in circles where it may repeat itself.
        hopeless: A word that makes it go in circles anyhow.
        is_slow_to_repeat: Whether the gate closes when a sentence must not repeat itself.
        stops_at: The gate closes when so many words of a sentence with partial results are there.
        breaks_when_retried: Whether an engine refuses a sentence that must not repeat itself.
        seconds: How long a step takes.
        rest: How it takes so long.
        room: How many sentences an engine takes at once.
        closings: How many engines were closed.
    """

    def __init__(self, *models: tuple[str, tuple[Pair, ...]], workers: int = 1) -> None:
        self.workers = workers
        self.admitted: list[DecodeRequest] = []
        self.cancelled: list[DecodeRequest] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.held = threading.Event()
        self.poison: str | None = None
        self.endless: str | None = None
        self.stuck: str | None = None
        self.hopeless: str | None = None
        self.is_slow_to_repeat = False
        self.stops_at: int | None = None
        self.breaks_when_retried = False
        self.seconds = 0.0
        self.rest: Callable[[float], object] = time.sleep
        self.room = 64
        self.closings = 0
        self.tokenizer = WordTokenizer()
        named = models or (("tiny", (("en", "fr"), ("fr", "en"))),)
        self.engines = {(name, worker): DoubleEngine(self) for name, _ in named for worker in range(workers)}
        self._models = [self._model(name, pairs) for name, pairs in named]

    def models(self) -> Sequence[Model]:
        """All of them loaded, for what needs no registry."""
        return self._models

    def model(self, name: str) -> Model:
        return next(model for model in self._models if model.card.name == name)

    def engine(self, model: str, worker: int) -> "DoubleEngine":
        return self.engines[model, worker]

    def list_models(self) -> Sequence[Model]:
        return [dataclasses.replace(model, loaded=None) for model in self._models]

    def load(self, model: Model) -> LoadedModel:
        loaded = self.model(model.card.name).loaded
        assert loaded is not None
        return dataclasses.replace(loaded)

    def verify(self, model: Model) -> None:
        pass

    def close(self) -> None:
        self.closings += 1
        self.gate.set()

    def _model(self, name: str, pairs: tuple[Pair, ...]) -> Model:
        card = ModelCard(
            name=name,
            version="1",
            pairs=pairs,
            max_source_length=40,
            max_target_length=64,
            decoding=DecodeOptions(beam_size=2),
        )
        loaded = LoadedModel(
            tokenizer=self.tokenizer,  # type: ignore[arg-type]
            engines=tuple(self.engines[name, worker] for worker in range(self.workers)),
            precision="float32",
            memory_bytes=100,
            seconds=0.5,
        )
        return Model(
            card=card,
            checksum="c" * 64,
            device="cpu",
            precision="float32",
            parameters=1000,
            memory_bytes=100,
            loaded=loaded,
        )


class DoubleEngine:
    """One running batch.

    Attributes:
        sizes: Sentences that took part in each step.
        widest: Most sentences it ever held.
    """

    def __init__(self, backend: DoubleBackend) -> None:
        self.sizes: list[int] = []
        self.widest = 0
        self._backend = backend
        self._arrivals: list[Sentence] = []
        self._running: dict[Sentence, int] = {}
        self._interrupted = threading.Event()

    @property
    def is_idle(self) -> bool:
        return not (self._arrivals or self._running)

    @property
    def running(self) -> int:
        return len(self._running)

    def fits(self, request: DecodeRequest) -> bool:
        return len(self._arrivals) + len(self._running) < self._backend.room

    def add(self, request: DecodeRequest) -> Sentence:
        if self._backend.is_slow_to_repeat and request.options.no_repeat_ngram_size:
            self._backend.gate.clear()
        if self._backend.breaks_when_retried and request.options.no_repeat_ngram_size:
            raise DecodingError("cannot search so")
        if not self._is_warm_up(request):
            self._backend.admitted.append(request)
        sentence = Sentence(request, 0, len(request.source_ids), seed=7)
        self._arrivals.append(sentence)
        self.widest = max(self.widest, len(self._arrivals) + len(self._running))
        return sentence

    def cancel(self, sentence: Sentence) -> None:
        if sentence in self._running or sentence in self._arrivals:
            self._backend.cancelled.append(sentence.request)
        self._running.pop(sentence, None)
        self._arrivals = [each for each in self._arrivals if each is not sentence]

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._backend.close()

    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        length = self._running.get(sentence, 0)
        if self._backend.stops_at is not None and length >= self._backend.stops_at:
            self._backend.gate.clear()
        return sentence.request.source_ids[:length]

    def step(self, *, max_steps: int) -> Progress:
        started = list(self._arrivals)
        self._running.update(dict.fromkeys(started, 0))
        self._arrivals.clear()
        progress = Progress(started=started, first_token_seconds=[_SECONDS] * len(started))
        if started:
            progress.encoder_seconds.append(_SECONDS)
        while self._running and len(progress.steps) < max_steps:
            self._advance(progress)
            if progress.finished or self._interrupted.is_set():
                break
        self._interrupted.clear()
        return progress

    def _advance(self, progress: Progress) -> None:
        if not all(self._is_warm_up(sentence.request) for sentence in self._running):
            self._backend.entered.set()
            if not self._backend.gate.is_set():
                self._backend.held.set()
                assert self._backend.gate.wait(timeout=60)
            self._backend.rest(self._backend.seconds)
        self._poison()
        rows = sum(sentence.rows for sentence in self._running)
        self.sizes.append(len(self._running))
        progress.steps.append(StepRecord(max(_SECONDS, self._backend.seconds), rows, len(self._running)))
        for sentence in self._running:
            self._running[sentence] += 1
        done = [s for s, length in self._running.items() if length >= len(s.request.source_ids)]
        for sentence in done:
            del self._running[sentence]
            progress.finished.append((sentence, self._result(sentence.request)))

    def _is_warm_up(self, request: DecodeRequest) -> bool:
        return "Congratulations," in self._backend.tokenizer.source_pieces(request.source_ids)

    def _poison(self) -> None:
        pieces = self._backend.tokenizer.source_pieces
        for sentence in self._running:
            if self._backend.poison in pieces(sentence.request.source_ids):
                self._running.clear()
                raise RuntimeError("cannot decode this")

    def _result(self, request: DecodeRequest) -> Result:
        words = self._backend.tokenizer.source_pieces(request.source_ids)
        may_repeat = request.options.no_repeat_ngram_size == 0
        circles = self._backend.hopeless in words or (may_repeat and self._backend.stuck in words)
        ends = self._backend.endless not in words
        return [_hypothesis(request, rank, ends, circles) for rank in range(request.options.num_hypotheses)]


def _hypothesis(request: DecodeRequest, rank: int, finished: bool, circles: bool) -> Hypothesis:
    """The source itself, aligned with itself; hypothesis n repeats its first word n more times."""
    ids = request.source_ids[:-1]
    ids = (*ids, *ids[-1:] * 5) if circles else ids
    ids = (*ids[:1] * rank, *ids)
    width = len(request.source_ids)
    sources = (min(max(place - rank, 0), width - 1) for place in range(len(ids)))
    rows = (tuple(float(each == source) for each in range(width)) for source in sources)
    alignment = tuple(rows) if request.options.return_alignment else None
    return Hypothesis(
        token_ids=ids,
        score=-0.5 - rank,
        log_probability=-0.5 * (len(ids) + finished),
        token_log_probabilities=(-0.5,) * (len(ids) + finished),
        finished=finished,
        alignment=alignment,
    )


def hypotheses(tokenizer: WordTokenizer, *texts: str, finished: bool = True) -> list[Hypothesis]:
    """The hypotheses of one sentence, best first."""
    ids = (tuple(tokenizer.encode(text)[:-1]) for text in texts)
    return [Hypothesis(each, -1.0, -1.0, (), finished=finished) for each in ids]


def request_of(
    *texts: str, source: str | None = "en", target: str = "fr", **fields: object
) -> TranslationRequest:
    """A request with the texts of `q`; it is not due before the end of the tests."""
    names = tuple(f"q[{i}]" for i in range(len(texts)))
    values = {"deadline": time.monotonic() + 1e6} | fields
    return TranslationRequest(texts=texts, fields=names, source=source, target=target, **values)  # type: ignore[arg-type]


def take_steps(backend: DoubleBackend, seconds: float) -> None:
    """Steps of so long by the event loop's clock: where that stands still, so do they."""
    loop = asyncio.get_running_loop()
    backend.seconds = seconds
    backend.rest = lambda wait: asyncio.run_coroutine_threadsafe(asyncio.sleep(wait), loop).result(60)


def write_keys(folder: Path, **keys: str) -> Path:
    """A file of API keys, by owner."""
    import hashlib

    path = folder / "keys"
    path.write_text(
        "".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}\n" for name, key in keys.items())
    )
    return path
