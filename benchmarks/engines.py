"""Engines that turn token ids into token ids, ours and others', each in a process of its own.

A process of `python -m benchmarks.engines` reads lines of JSON and answers each with a line:

    first line   {"engine": NAME, "folder": PATH, "threads": N, "device": D}    {}, once the engine is ready
    then         {"sources": [[…]], "options": {…}, "batch_size": N}            {"seconds": …, "ids": [[…]]}
"""

import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

import click

from benchmarks.harness.timing import pin
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.device import resolve_precision
from model.decoding.engine import DecodingEngine
from model.decoding.factory import engine_factory, torch_engine
from model.decoding.sentence import Sentence
from model.errors import NativeError, TranslationError
from model.native.binding import load_library

if TYPE_CHECKING:
    from torch import Tensor

Ids = Sequence[int]
Translations = list[tuple[int, ...]]
EXACT = "float32"
"""The precision in which every engine must give the same translations."""

_ROOT = Path(__file__).parents[1]
_UNBOUNDED = 10**9
# CTranslate2 cuts longer sources silently; the checkpoint's limit keeps ours shorter.
_LONGEST_SOURCE = 1024


class Engine(Protocol):
    """A loaded engine that knows how many threads it may keep busy."""

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """The best translation of each source, without EOS, in the order of the sources.

        Args:
            sources: Token ids, EOS included; the longest first, where lengths differ.
            options: Strategy greedy or beam, `beam_size`, `length_penalty`, `max_length`.
            batch_size: Sentences that a thread decodes at a time.
        """


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """One engine in one precision; its library is not imported until it is loaded."""

    engine: str  # name without the precision
    precision: str  # what it computes in, in our words
    devices: Sequence[str]  # where it runs

    @property
    def name(self) -> str:
        """The name by which `--engine` chooses it."""
        return f"{self.engine}-{self.precision}"

    @property
    def is_ours(self) -> bool:
        """Whether it is one of Dragoman's."""
        return self.engine.startswith("dragoman")

    def is_present(self, device: str) -> bool:
        """Returns whether this machine has what the engine needs on a device."""
        if device not in self.devices:
            return False
        match self.engine:
            case "dragoman-native":
                try:
                    load_library()
                except NativeError:
                    return False
            case "hugging-face":
                return find_spec("transformers") is not None
            case "ctranslate2":
                if find_spec("ctranslate2") is None:
                    return False
                import ctranslate2

                return device == "cpu" or ctranslate2.get_cuda_device_count() > 0
        return True

    def load(self, folder: Path, threads: int, device: str) -> Engine:
        """Make the engine from its weights."""
        makers: Mapping[str, Callable[[Path, str, int, str], Engine]] = {
            "dragoman-native": _dragoman,
            "dragoman-graphs": _dragoman,
            "dragoman-torch": torch_reference,
            "hugging-face": _HuggingFace,
            "ctranslate2": _CTranslate2,
        }
        return makers[self.engine](folder, self.precision, threads, device)


_CPU, _CUDA, _BOTH = ("cpu",), ("cuda",), ("cpu", "cuda")
_PRECISIONS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "dragoman-native": {"float32": _CPU, "bfloat16": _CPU, "int8": _CPU},
    "dragoman-graphs": {"float32": _CUDA, "bfloat16": _CUDA},
    "dragoman-torch": {"float32": _BOTH, "bfloat16": _CUDA, "int8": _CPU},
    "hugging-face": {"float32": _BOTH, "bfloat16": _BOTH},
    "ctranslate2": {"float32": _BOTH, "bfloat16": _CUDA, "int8": _BOTH},
}
ENGINES = {
    f"{engine}-{precision}": EngineSpec(engine=engine, precision=precision, devices=devices)
    for engine, found in _PRECISIONS.items()
    for precision, devices in found.items()
}
"""By name; ours first. `native` is the CPU library, `graphs` PyTorch with recorded CUDA steps."""


def choose(names: Sequence[str], device: str) -> tuple[list[EngineSpec], list[str]]:
    """The named engines, or all of a device, that this machine has, ours first; and names of the others.

    Raises:
        click.UsageError: If none of them is ours, to compare the others with.
    """
    wanted = [spec for spec in ENGINES.values() if (spec.name in names if names else device in spec.devices)]
    chosen = [spec for spec in wanted if spec.is_present(device)]
    if not chosen or not chosen[0].is_ours:
        named = ", ".join(names)
        raise click.UsageError(f"--engine must name one of dragoman's that this machine has, but is {named}")
    return chosen, [spec.name for spec in wanted if spec not in chosen]


def beams(options: DecodeOptions) -> int:
    """Width of the search; 1 is greedy."""
    return options.beam_size if options.strategy == "beam" else 1


class _Dragoman:
    """Continuous batching: one engine a thread over the same weights, each with `batch_size` in flight."""

    def __init__(self, engines: Sequence[DecodingEngine]) -> None:
        self._engines = engines
        self._threads = ThreadPoolExecutor(len(engines))

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """See Engine."""
        waiting = deque((index, DecodeRequest(tuple(ids), options)) for index, ids in enumerate(sources))
        done: dict[int, tuple[int, ...]] = {}
        runs = [self._threads.submit(_drain, each, waiting, batch_size, done) for each in self._engines]
        for run in runs:
            run.result()
        return [done[index] for index in range(len(sources))]


def _drain(
    engine: DecodingEngine,
    waiting: deque[tuple[int, DecodeRequest]],
    batch_size: int,
    done: dict[int, tuple[int, ...]],
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


def _dragoman(folder: Path, precision: str, threads: int, device: str) -> Engine:
    """Our engine as the service runs it: the native library on a CPU, recorded steps on a GPU."""
    factory = engine_factory(load_checkpoint(folder), device=device, precision=precision)
    return _Dragoman([factory.make(max_batch_tokens=_UNBOUNDED) for _ in range(threads)])


def torch_reference(folder: Path, precision: str, threads: int, device: str) -> Engine:
    """On PyTorch, every step at its exact size: what everything else is compared with."""
    import torch

    from model.decoding.pytorch.torch_runner import load_network

    torch.set_num_threads(1)
    checkpoint = load_checkpoint(folder)
    network = load_network(checkpoint, device, resolve_precision(precision, device, is_native=False))
    tags = checkpoint.tokenizer.target_tag_ids
    engines = [
        torch_engine(network, device=device, never_produced=tags, max_batch_tokens=_UNBOUNDED)
        for _ in range(threads)
    ]
    return _Dragoman(engines)


class _CTranslate2:
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


class _HuggingFace:
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


class EngineProcess:
    """Starts an engine and waits until it is ready; use it in a `with` block.

    Raises:
        RuntimeError: If the engine ends before it is ready; its own error is on standard error.
    """

    def __init__(self, spec: EngineSpec, folder: Path, threads: int, device: str = "cpu") -> None:
        self.spec = spec
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engines"],
            cwd=_ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(1 if spec.is_ours else threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        folder = folder.resolve()
        self._ask({"engine": spec.name, "folder": str(folder), "threads": threads, "device": device})

    def decode(
        self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int
    ) -> tuple[Translations, float]:
        """Translations of the sources, and the seconds that they took by the engine's own clock."""
        answer = self._ask({"sources": sources, "options": options.to_dict(), "batch_size": batch_size})
        return [tuple(ids) for ids in answer["ids"]], answer["seconds"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the process ends when its input does

    def _ask(self, order: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None, "the process is started with pipes"
        assert self._process.stdout is not None, "the process is started with pipes"
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.spec.name} ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    """Serve standard input until it ends."""
    # Standard output is for the answers alone: what libraries print there goes to standard error.
    with os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as answers:
        os.dup2(2, 1)
        order = json.loads(sys.stdin.readline())
        if order["device"] == "cpu":
            pin(order["threads"])
        place = order["device"], order["threads"]
        engine = ENGINES[order["engine"]].load(Path(order["folder"]), *reversed(place))
        answers.write("{}\n")
        for line in sys.stdin:
            answers.write(json.dumps(_decode(engine, json.loads(line), *place)) + "\n")


def _decode(engine: Engine, order: Mapping[str, Any], device: str, threads: int) -> Mapping[str, object]:
    """On a CPU, seconds are CPU time per thread, which other processes of the machine influence least."""
    options = DecodeOptions.from_dict(order["options"])
    clock, share = (time.process_time, threads) if device == "cpu" else (time.perf_counter, 1)
    start = clock()
    ids = engine.decode(order["sources"], options, order["batch_size"])
    return {"seconds": (clock() - start) / share, "ids": ids}


if __name__ == "__main__":
    main()
