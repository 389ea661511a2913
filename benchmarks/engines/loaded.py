"""The engines as a benchmark drives them; each imports what it needs when it is made."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.engines import Ids, Translations, beams
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.device import resolve_precision
from model.decoding.engine import DecodingEngine
from model.decoding.factory import engine_factory, torch_engine
from model.decoding.sentence import Sentence
from model.errors import TranslationError

if TYPE_CHECKING:
    from torch import Tensor

_UNBOUNDED = 10**9
# CTranslate2 cuts longer sources silently; the checkpoint's limit keeps ours shorter.
_LONGEST_SOURCE = 1024
_Waiting = deque[tuple[int, DecodeRequest]]


class DragomanEngine:
    """Continuous batching: one engine a thread over the same weights, each with `batch_size` in flight."""

    def __init__(self, engines: Sequence[DecodingEngine]) -> None:
        self._engines = engines
        self._threads = ThreadPoolExecutor(len(engines))

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        waiting = deque((index, DecodeRequest(tuple(ids), options)) for index, ids in enumerate(sources))
        done: dict[int, tuple[int, ...]] = {}
        if len(self._engines) == 1:
            _drain(self._engines[0], waiting, batch_size, done)
        else:
            runs = [self._threads.submit(_drain, each, waiting, batch_size, done) for each in self._engines]
            for run in runs:
                run.result()
        return [done[index] for index in range(len(sources))]


def _drain(
    engine: DecodingEngine, waiting: _Waiting, batch_size: int, done: dict[int, tuple[int, ...]]
) -> None:
    """Decode until nothing is waiting; several threads may share the queue."""
    places: dict[Sentence, int] = {}
    while True:
        while len(places) < batch_size:
            try:
                index, request = waiting.popleft()
            except IndexError:
                break
            places[engine.add(request)] = index
        if not places:
            return
        for sentence, result in engine.step().finished:
            if isinstance(result, TranslationError):
                raise result
            done[places.pop(sentence)] = result[0].token_ids


def dragoman(folder: Path, precision: str, threads: int, device: str) -> DragomanEngine:
    """Our engine as the service runs it: the native library on a CPU, recorded steps on a GPU."""
    factory = engine_factory(load_checkpoint(folder), device=device, precision=precision)
    return DragomanEngine([factory.make(max_batch_tokens=_UNBOUNDED) for _ in range(threads)])


def torch_reference(folder: Path, precision: str, threads: int, device: str) -> DragomanEngine:
    """On PyTorch, every step at its exact size: what everything else is compared with."""
    import torch

    from model.decoding.pytorch.loading import load_network

    torch.set_num_threads(1)
    checkpoint = load_checkpoint(folder)
    network = load_network(checkpoint, device, resolve_precision(precision, device, is_native=False))
    tags = checkpoint.tokenizer.target_tag_ids
    engines = [
        torch_engine(network, device=device, never_produced=tags, max_batch_tokens=_UNBOUNDED)
        for _ in range(threads)
    ]
    return DragomanEngine(engines)


class CTranslate2Engine:
    """See Engine. Each thread works on batches of its own, which is faster than sharing products."""

    def __init__(self, folder: Path, precision: str, threads: int, device: str) -> None:
        import ctranslate2

        vocabulary = folder / "shared_vocabulary.json"
        sides = (
            (vocabulary, vocabulary)
            if vocabulary.exists()
            else (folder / "source_vocabulary.json", folder / "target_vocabulary.json")
        )
        self._source_tokens, target_tokens = (json.loads(side.read_text(encoding="utf-8")) for side in sides)
        self._target_ids = {token: i for i, token in enumerate(target_tokens)}
        self._translator = ctranslate2.Translator(
            str(folder), device=device, compute_type=precision, inter_threads=threads, intra_threads=1
        )

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine; a call has one length limit, that of the longest source."""
        limits = [options.length_bounds(len(ids), _LONGEST_SOURCE) for ids in sources]
        results = self._translator.translate_batch(
            [[self._source_tokens[i] for i in ids] for ids in sources],
            max_batch_size=batch_size,
            beam_size=beams(options),
            length_penalty=options.length_penalty,
            max_decoding_length=max(longest for _, longest in limits),
            min_decoding_length=min(shortest for shortest, _ in limits),
        )
        return [tuple(self._target_ids[token] for token in result.hypotheses[0]) for result in results]


class HuggingFaceEngine:
    """See Engine. The threads share every matrix product."""

    def __init__(self, folder: Path, precision: str, threads: int, device: str) -> None:
        import torch
        from transformers import AutoModelForSeq2SeqLM

        torch.set_num_threads(threads)
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=getattr(torch, precision))
        torch.nn.Module.to(self._model, device)
        self._threads = threads
        self._generate = cast(Callable[..., "Tensor"], self._model.generate)
        settings = self._model.generation_config
        self._pad_id, self._eos_id = settings.pad_token_id, settings.eos_token_id

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        translations: Translations = []
        # The threads share a batch, so it holds as many sentences as the batches of other engines together.
        size = batch_size * self._threads
        for start in range(0, len(sources), size):
            translations += self._decode_batch(sources[start : start + size], options)
        return translations

    def _decode_batch(self, sources: Sequence[Ids], options: DecodeOptions) -> Translations:
        import torch

        longest = max(map(len, sources))
        padded = [[*ids, *[self._pad_id] * (longest - len(ids))] for ids in sources]
        source_NS = torch.tensor(padded, device=self._model.device)
        limit = self._model.config.max_position_embeddings
        with torch.inference_mode():
            produced_NT = self._generate(
                input_ids=source_NS,
                attention_mask=(source_NS != self._pad_id).long(),
                max_length=None,
                max_new_tokens=max(options.length_bounds(len(ids), limit - 1)[1] for ids in sources),
                num_beams=beams(options),
                length_penalty=options.length_penalty,
                do_sample=False,
            )
        return [self._words(ids) for ids in produced_NT[:, 1:].tolist()]

    def _words(self, ids: list[int]) -> tuple[int, ...]:
        ends = [ids.index(end) for end in (self._eos_id, self._pad_id) if end in ids]
        return tuple(ids[: min(ends, default=len(ids))])
