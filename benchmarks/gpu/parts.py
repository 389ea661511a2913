"""The parts of a session that need nothing but PyTorch: each measures, or raises what is wrong.

A part gets the device and the size of the work, and returns figures by name; see `predictions`.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as profiled

from model.config import TransformerConfig, preset
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.engine import DecodingEngine
from model.decoding.pytorch.device_use import CudaGraphs, using
from model.decoding.pytorch.kernel_check import Sizes, cases, fuse_steps, kernels_work, require_agreement
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.runner import Interrupt
from model.decoding.sentence import Sentence
from model.network.layers import choose_attention_kernels
from model.network.transformer import Transformer

Figures = dict[str, float]
_CAPACITY = 128
# Log-probabilities of the same tokens, computed with a cache and without one.
_TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.2}
# Functions of model.network.triton_ops.kernels.
_KERNELS = (
    "attend",
    "add_norm",
    "embed",
    "score_vocabulary",
    "choose_tokens",
    "record_greedy",
    "record_beams",
)
_SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "beam": {"beam_size": 4},
    "sample": {"strategy": "sample", "seed": 7, "top_k": 16},
}


@dataclass(frozen=True, kw_only=True)
class Work:
    """Where a part runs, and how much it does."""

    device: str
    config: TransformerConfig  # of the network
    slots: Sequence[int]  # sizes of the running batch
    sentences: int  # of a run of continuous batching
    tokens: int  # length of sentences whose length is fixed

    @property
    def is_dry(self) -> bool:
        """Whether it only shows that everything runs."""
        return self.device == "cpu"

    def network(self, dtype: torch.dtype) -> Transformer:
        """A network of random weights, the same each time."""
        torch.manual_seed(1)
        choose_attention_kernels(self.device)
        with using(torch.device(self.device)):
            return Transformer(self.config).to(self.device, dtype).eval()

    def runner(self, dtype: torch.dtype = torch.bfloat16, rows: int | None = None) -> StaticRunner:
        """A recorded runner over the network; it holds as many rows as the largest batch."""
        rows = rows or max(self.slots)
        network = self.network(dtype)
        runner = StaticRunner(
            network,
            self.device,
            max_rows=rows,
            max_kv_slots=max(rows * 2 * _CAPACITY, 33 * self.config.max_positions),
            widths=(1, 4),
            capacity=_CAPACITY,
            is_fused=fuse_steps(network, torch.device(self.device)),
        )
        runner.warm_up()
        return runner

    def engine(self, runner: StaticRunner) -> DecodingEngine:
        """An engine that fills the runner."""
        return DecodingEngine(runner, self.config, max_batch_tokens=2**30, max_encode_tokens=8192)

    def requests(self, count: int, **options: object) -> list[DecodeRequest]:
        """Sentences of unequal lengths; translations are as long as their sources."""
        draw, eos = random.Random(1), self.config.eos_id
        made = []
        for _ in range(count):
            length = max(2, min(int(draw.lognormvariate(3.1, 0.5)), _CAPACITY - 1))
            source = tuple(draw.randrange(4, self.config.source_vocab_size) for _ in range(length - 1))
            fixed = {"min_length": length, "max_length": length}
            made.append(DecodeRequest((*source, eos), DecodeOptions.from_dict({**fixed, **options})))
        return made

    def wait(self) -> None:
        """Wait for the device."""
        if not self.is_dry:
            torch.cuda.synchronize(self.device)


_BASE = preset("base", source_vocab_size=32_000, target_vocab_size=32_000)
_LAYERS = {"num_encoder_layers": 2, "num_decoder_layers": 2}
_VOCABULARY = {"source_vocab_size": 400, "target_vocab_size": 400}
_TINY = preset("base", model_dim=32, num_heads=2, ffn_dim=64, **_LAYERS, **_VOCABULARY)
FULL = Work(device="cuda", config=_BASE, slots=(1, 32, 128, 256, 512), sentences=4096, tokens=64)
DRY = Work(device="cpu", config=_TINY, slots=(1, 8), sentences=12, tokens=8)


def smoke(work: Work) -> Figures:
    """The device, the attention kernels, and a few sentences by recorded steps."""
    if not work.is_dry:
        properties = torch.cuda.get_device_properties(work.device)
        print(f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, torch {torch.__version__}")
    runner = work.runner(rows=8)
    for options in _SEARCHES.values():
        _decode(work.engine(runner), work.requests(4, **options))
    recorded, eager = len(runner._graphs), runner._graphs.num_eager
    fused = kernels_work(torch.device(work.device))
    if not work.is_dry and (eager or not recorded):
        raise RuntimeError(f"{recorded} shapes of steps were recorded, {eager} could not be")
    return {"smoke.recorded": recorded, "smoke.eager": eager, "smoke.triton": fused}


def correctness(work: Work) -> Figures:
    """Every token's log-probability once more, without a cache: ties may fall otherwise, sums must agree."""
    figures: Figures = {}
    for dtype, tolerance in _TOLERANCE.items():
        runner = work.runner(dtype)
        network = work.network(torch.float32 if dtype == torch.float32 else dtype)
        for name, options in _SEARCHES.items():
            asked = work.requests(4 if work.is_dry else 128, **options)
            results = _decode(work.engine(runner), asked)
            worst = max(_difference(network, work, *pair) for pair in zip(asked, results, strict=True))
            figures[f"correctness.{name}.{str(dtype).removeprefix('torch.')}"] = worst
            if worst > tolerance:
                raise RuntimeError(f"{name} in {dtype}: log-probabilities differ by {worst}")
    return figures


@torch.inference_mode()
def _difference(network: Transformer, work: Work, asked: DecodeRequest, found: Hypothesis) -> float:
    """The largest difference of a token's log-probability from that of the whole target at once."""
    config, device = network.config, work.device
    target = [config.decoder_start_id, *found.token_ids]
    ends = [config.eos_id] if found.finished else []
    source_NS, target_NT = (torch.tensor([ids], device=device) for ids in (asked.source_ids, target))
    # What is never produced does not count in the probabilities of a search either way.
    log_probs_TV = network(source_NS, target_NT)[0].float().log_softmax(-1)
    produced = torch.tensor([*found.token_ids, *ends], device=device)
    again = log_probs_TV[: len(produced)].gather(1, produced[:, None])[:, 0]
    return float((again - torch.tensor(found.token_log_probabilities, device=device)).abs().max())


def loop(work: Work) -> Figures:
    """Steps of full batches in which no sentence arrives or ends."""
    figures: Figures = {}
    runner = work.runner()
    for slots in work.slots:
        seconds = min(_seconds_of_a_step(work, runner, slots) for _ in range(3))
        figures[f"loop.step_us.{slots}"] = seconds * 1e6
        figures[f"loop.tokens.{slots}"] = slots / seconds
    return figures


def _seconds_of_a_step(work: Work, runner: StaticRunner, slots: int) -> float:
    fixed = {"strategy": "greedy", "min_length": work.tokens, "max_length": work.tokens}
    options = DecodeOptions.from_dict(fixed)
    source = (*range(4, 27), work.config.eos_id)
    sentences = [Sentence.admit(DecodeRequest(source, options), work.config) for _ in range(slots)]
    runner.admit(sentences)
    runner.advance(Interrupt(), 1)
    work.wait()
    began = time.perf_counter()
    steps = len(runner.advance(Interrupt(), work.tokens - 2).steps)
    work.wait()
    seconds = (time.perf_counter() - began) / steps
    runner.drop(sentences)  # a step is reported late, and the next sentences need the first slots
    return seconds


def continuous(work: Work) -> Figures:
    """Sentences of unequal lengths through the engine, and one alone."""
    runner = work.runner()
    engine, asked = work.engine(runner), work.requests(work.sentences, strategy="greedy")
    _decode(engine, asked[: len(asked) // 4])
    began = time.perf_counter()
    results = _decode(engine, asked)
    seconds = time.perf_counter() - began
    (alone,) = work.requests(1, strategy="greedy", min_length=24, max_length=24)
    times = []
    for _ in range(9):
        began = time.perf_counter()
        _decode(engine, [alone])
        times.append(time.perf_counter() - began)
    tokens = sum(len(each.token_log_probabilities) for each in results)
    return {"continuous.tokens": tokens / seconds, "continuous.alone_ms": sorted(times)[4] * 1e3}


def kernels(work: Work) -> Figures:
    """The Triton kernels against PyTorch in the sizes of `base` with 256 slots, and their times."""
    if work.is_dry:
        os.environ["TRITON_INTERPRET"] = "1"
    full = Sizes(
        width=1,
        heads=8,
        head_dim=64,
        capacity=_CAPACITY,
        lengths=(23,) * 256,
        source_lengths=(24,) * 256,
        vocabulary=32_000,
    )
    sizes, device = Sizes() if work.is_dry else full, torch.device(work.device)
    with torch.inference_mode():
        for dtype in _TOLERANCE:
            require_agreement(device, dtype, sizes)
        computed = cases(device, torch.bfloat16, sizes)
        if work.is_dry:
            return {"kernels.checked": len(computed)}
        with profiled(activities=[ProfilerActivity.CUDA]) as record:
            for compute in computed.values():
                compute(True)
            work.wait()
    times = {each.key: each.device_time for each in record.key_averages() if each.key in _KERNELS}
    return {"kernels.checked": len(computed), **{f"kernel_us.{name}": time for name, time in times.items()}}


def recovery(work: Work) -> Figures:
    """A recording that fails, runners recorded while others decode, and memory that runs out."""
    device = torch.device(work.device)
    graphs, total = CudaGraphs(device), torch.zeros((), device=device)

    def unrecordable() -> None:
        total.add_(1)
        if total.item() < 0:
            raise AssertionError

    graphs.prepare("unrecordable", unrecordable)
    graphs.run("unrecordable", unrecordable)
    graphs.prepare("recordable", lambda: total.add_(1))
    graphs.run("recordable", lambda: total.add_(1))
    is_recorded = (len(graphs), graphs.num_eager) == (1, 1) or work.is_dry
    live, asked = work.runner(rows=64), work.requests(32, strategy="greedy")
    expected = _decode(work.engine(live), asked)
    _require(is_recorded and total.item() in (2, 4), "a failed recording must leave other steps recorded")
    rounds = _decode_during(lambda: work.runner(rows=64).close(), lambda: _decode(work.engine(live), asked))
    _require(live._graphs.num_eager == 0, "no recording may fail while another thread decodes")
    if not work.is_dry:
        _run_out_of_memory(work, live, asked, expected)
    return {"recovery.rounds_during_reload": rounds}


def _decode_during(reload: Callable[[], object], decode: Callable[[], object]) -> int:
    thread = threading.Thread(target=reload)
    thread.start()
    rounds = 0
    while thread.is_alive() or not rounds:
        decode()
        rounds += 1
    thread.join()
    return rounds


def _run_out_of_memory(
    work: Work, runner: StaticRunner, asked: Sequence[DecodeRequest], expected: Sequence[Hypothesis]
) -> None:
    free, _ = torch.cuda.mem_get_info(work.device)
    hoard = [torch.empty(free - 2**26, dtype=torch.uint8, device=work.device)]
    try:
        _decode(work.engine(runner), work.requests(64, beam_size=6))
    except MemoryError as error:
        print(f"as intended: {error}")
    hoard.clear()
    torch.cuda.empty_cache()
    again = _decode(work.engine(runner), asked)
    same = sum(one.token_ids == other.token_ids for one, other in zip(again, expected, strict=True))
    _require(same >= 0.9 * len(asked), f"{same} of {len(asked)} translations are as before memory ran out")


def profile(work: Work) -> Figures:
    """Kernels of a step, and the seconds of the longest ones."""
    figures: Figures = {}
    activity = ProfilerActivity.CPU if work.is_dry else ProfilerActivity.CUDA
    for name, options in _SEARCHES.items():
        engine = work.engine(work.runner(rows=64))
        for asked in work.requests(16, **options):
            engine.add(asked)
        for _ in range(3):
            engine.step(max_steps=1)
        with profiled(activities=[activity]) as record:
            engine.step(max_steps=1)
            work.wait()
        if not work.is_dry:
            figures[f"kernels.{name}"] = sum(each.device_type.name == "CUDA" for each in record.events())
        print(record.key_averages().table(row_limit=12, max_name_column_width=60))
    if not work.is_dry:
        figures["profile.reserved_gib"] = torch.cuda.memory_reserved(work.device) / 2**30
    return figures


def _decode(engine: DecodingEngine, asked: Sequence[DecodeRequest]) -> list[Hypothesis]:
    best = []
    for result in engine.decode(asked):
        if not isinstance(result, list):
            raise result
        best.append(result[0])
    return best


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise RuntimeError(what)


PARTS: Mapping[str, Callable[[Work], Figures]] = {
    part.__name__: part for part in (smoke, correctness, loop, continuous, kernels, recovery, profile)
}
"""By name."""
