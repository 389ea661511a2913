"""A backend without a network: it answers with the words themselves, in capitals, and does as it is told."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.backend import LoadedModel, Outcome
from model.card import ModelCard, Pair
from model.decoding.observer import Observer
from model.request import DecodeOptions, DecodeRequest, Hypothesis


class WordTokenizer:
    """Ids by word, given out as words come; decoding gives the word in capitals."""

    eos_id = 1

    def __init__(self) -> None:
        self._words = ["<pad>", "</s>"]

    def encode(self, text: str, *, target_language: str | None = None) -> list[int]:
        return [*map(self._id, text.split()), self.eos_id]

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
    """Decodes by repeating the source.

    Attributes:
        batches: Every batch it was given.
        gate: Decoding waits until it is set, as it is from the start.
        poison: A word that makes decoding fail.
        endless: A word that makes a sentence reach its length limit.
    """

    def __init__(self, *models: tuple[str, tuple[Pair, ...]]) -> None:
        self.batches: list[Sequence[DecodeRequest]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.poison: str | None = None
        self.endless: str | None = None
        self.tokenizer = WordTokenizer()
        named = models or (("tiny", (("en", "fr"), ("fr", "en"))),)
        self._models = [self._model(name, pairs) for name, pairs in named]

    def models(self) -> Sequence[LoadedModel]:
        return self._models

    def decode(self, model: str, requests: Sequence[DecodeRequest], observer: Observer) -> list[Outcome]:
        self.batches.append(requests)
        self.entered.set()
        assert self.gate.wait(timeout=10)
        observer.encoded(0.001, len(requests))
        observer.first_token(0.002, len(requests))
        observer.stepped(0.002, len(requests), len(requests))
        return [self._outcome(request) for request in requests]

    def memory(self) -> Mapping[str, int]:
        return {"allocated": 1024}

    def close(self) -> None:
        self.gate.set()

    def _outcome(self, request: DecodeRequest) -> list[Hypothesis]:
        words = self.tokenizer.source_pieces(request.source_ids[:-1])
        if self.poison in words:
            raise RuntimeError(f"cannot decode {words}")
        ends = self.endless not in words
        return [_hypothesis(request, rank, ends) for rank in range(request.options.num_hypotheses)]

    def _model(self, name: str, pairs: tuple[Pair, ...]) -> LoadedModel:
        card = ModelCard(
            name=name,
            version="1",
            pairs=pairs,
            max_source_length=40,
            max_target_length=64,
            decoding=DecodeOptions(beam_size=2),
        )
        return LoadedModel(
            card=card,
            tokenizer=self.tokenizer,  # type: ignore[arg-type]
            checksum="c" * 64,
            device="cpu",
            precision="float32",
            parameters=1000,
            load_seconds=0.5,
        )


def _hypothesis(request: DecodeRequest, rank: int, finished: bool) -> Hypothesis:
    """The source itself; hypothesis n repeats its first word n more times."""
    ids = request.source_ids[:-1]
    ids = (*ids[:1] * rank, *ids)
    width = len(request.source_ids)
    alignment = tuple((1 / width,) * width for _ in ids) if request.options.return_alignment else None
    return Hypothesis(
        token_ids=ids,
        score=-0.5 - rank,
        log_probability=-0.5 * (len(ids) + finished),
        token_log_probabilities=(-0.5,) * (len(ids) + finished),
        finished=finished,
        alignment=alignment,
    )


def write_keys(folder: Path, **keys: str) -> Path:
    """A file of API keys, by owner."""
    import hashlib

    path = folder / "keys"
    path.write_text(
        "".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}\n" for name, key in keys.items())
    )
    return path
