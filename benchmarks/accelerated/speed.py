"""Tokens a second in the decode loop, the share of the memory's bandwidth, and one sentence's latency."""

import statistics
import time
from dataclasses import asdict, dataclass

import torch

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.percentiles import percentile
from benchmarks.report import Table, rounded
from benchmarks.work import random_sentences
from model.decoding.engine import DecodingEngine
from model.decoding.runner import Interrupt, Runner
from model.decoding.sentence import Sentence
from model.network.transformer import Transformer
from model.request import DecodeOptions, DecodeRequest
from model.training.report.utilisation import wait_for

_COLUMNS = ("runner", "search", "sentences", "rows", "ms a step", "target tokens/s", "share of bandwidth")
_GREEDY = DecodeOptions(strategy="greedy")
_BEAM_SIZE = 4
_BIG = 2**31
_TRIES_A_ROUND = 6


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Decoding of so many sentences that begin together, encoder left out.

    Attributes:
        runner: `static` or `exact`.
        search: `greedy` or `beam 4`.
        sentences: Side by side.
        rows: Hypotheses.
        step_seconds: Of a step, a median of rounds.
        bandwidth_share: Bytes that a step must read at least, over what the memory moves in that time.
    """

    runner: str
    search: str
    sentences: int
    rows: int
    step_seconds: float
    bandwidth_share: float

    @property
    def tokens_per_second(self) -> float:
        """Of translations, not of hypotheses."""
        return self.sentences / self.step_seconds

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            self.runner,
            self.search,
            str(self.sentences),
            str(self.rows),
            f"{self.step_seconds * 1e3:.3f}",
            f"{self.tokens_per_second:,.0f}",
            f"{self.bandwidth_share:.0%}",
        )


def measure_loops(plan: Plan) -> Finding:
    """Throughput by the number of sentences side by side."""
    network, bandwidth = plan.network(plan.precision), _bandwidth(plan)
    before = time.perf_counter()
    static, exact = plan.static_runner(network, widths=(1, _BEAM_SIZE)), plan.exact_runner(network)
    warming = time.perf_counter() - before
    beam = DecodeOptions(beam_size=_BEAM_SIZE)
    loops = [_loop(plan, "static", static, network, _GREEDY, count, bandwidth) for count in plan.slots]
    wide = max(1, max(plan.slots) // _BEAM_SIZE)
    loops.append(_loop(plan, "static", static, network, beam, wide, bandwidth))
    loops += [_loop(plan, "exact", exact, network, _GREEDY, count, bandwidth) for count in plan.slots]
    return Finding(
        tables=[Table(title="Decode loop", columns=_COLUMNS, rows=[loop.cells() for loop in loops])],
        results=[
            *(
                {"kind": "loop", **asdict(loop), "tokens_per_second": loop.tokens_per_second}
                for loop in loops
            ),
            {"kind": "memory", "bandwidth": bandwidth, "warm_up_seconds": warming},
        ],
        notes=[
            f"Copying moves {bandwidth / 1e9:,.0f} GB/s. Loading and recording all graphs: {warming:.1f} s.",
            *_memory_note(plan),
        ],
    )


def measure_latency(plan: Plan) -> Finding:
    """One sentence alone, from its ids to those of its translation."""
    network = plan.network(plan.precision)
    options = DecodeOptions(strategy="greedy", max_length=plan.source_tokens)
    (source,) = random_sentences(plan.config, 1, plan.source_tokens, plan.seed)
    request = DecodeRequest(tuple(source), options)
    rows, results = [], []
    for name, runner in (("static", plan.static_runner(network)), ("exact", plan.exact_runner(network))):
        engine = DecodingEngine(runner, plan.config)
        seconds = sorted(_timed(plan, engine, request) for _ in range(_TRIES_A_ROUND * plan.rounds))
        median, late = statistics.median(seconds), percentile(seconds, 0.9)
        rows.append((name, str(plan.source_tokens), rounded(median * 1e3), rounded(late * 1e3)))
        results.append({"kind": "latency", "runner": name, "seconds": seconds})
    columns = ("runner", "tokens in and out", "median, ms", "90th percentile, ms")
    return Finding(
        tables=[Table(title="One sentence, end to end", columns=columns, rows=rows)], results=results
    )


def _timed(plan: Plan, engine: DecodingEngine, request: DecodeRequest) -> float:
    wait_for(plan.device)
    before = time.perf_counter()
    engine.decode([request])
    return time.perf_counter() - before


def _loop(
    plan: Plan,
    name: str,
    runner: Runner,
    network: Transformer,
    options: DecodeOptions,
    sentences: int,
    bandwidth: float,
) -> Loop:
    _run(plan, runner, options, sentences)  # warms up
    seconds = statistics.median(_run(plan, runner, options, sentences) for _ in range(plan.rounds))
    lanes = options.lanes
    needed = _bytes_of_step(plan, network, sentences, lanes)
    return Loop(
        runner=name,
        search="greedy" if lanes == 1 else f"beam {lanes}",
        sentences=sentences,
        rows=sentences * lanes,
        step_seconds=seconds,
        bandwidth_share=needed / bandwidth / seconds,
    )


def _run(plan: Plan, runner: Runner, options: DecodeOptions, sentences: int) -> float:
    """Seconds of a step; the first one, which may wait for the encoder, is left out."""
    endless = DecodeOptions.from_dict({**options.to_dict(), "max_length": plan.tokens, "stop": "all"})
    batch = [
        Sentence.admit(DecodeRequest(tuple(ids), endless), plan.config)
        for ids in random_sentences(plan.config, sentences, plan.source_tokens, plan.seed)
    ]
    runner.admit(batch)
    interrupt = Interrupt()
    runner.advance(interrupt, 1)
    wait_for(plan.device)
    before, steps, running = time.perf_counter(), 0, len(batch)
    while running:
        progress = runner.advance(interrupt, plan.tokens)
        steps, running = steps + len(progress.steps), running - len(progress.finished)
    wait_for(plan.device)
    return (time.perf_counter() - before) / steps


def _bytes_of_step(plan: Plan, network: Transformer, sentences: int, lanes: int) -> float:
    """Weights once; sources once a sentence, what was produced so far once a hypothesis.

    The weights but those that make keys and values of a source, which are read when it is admitted.
    """
    read = [*network.decoder.named_parameters(), *network.output.named_parameters()]
    weights = sum(weight.nbytes for name, weight in read if "cross.key_value" not in name)
    entry = 2 * plan.config.num_decoder_layers * plan.config.model_dim * plan.precision.itemsize
    return weights + entry * sentences * (plan.source_tokens + lanes * plan.tokens / 2)


def _bandwidth(plan: Plan) -> float:
    """Bytes a second that a copy reads and writes."""
    size = _BIG if plan.device.type == "cuda" else 2**26
    numbers = torch.zeros(size, dtype=torch.int8, device=plan.device)
    target, seconds = torch.empty_like(numbers), []
    for _ in range(6):
        wait_for(plan.device)
        before = time.perf_counter()
        target.copy_(numbers)
        wait_for(plan.device)
        seconds.append(time.perf_counter() - before)
    return 2 * size / min(seconds)


def _memory_note(plan: Plan) -> list[str]:
    if plan.device.type != "cuda":
        return []
    name, reserved = torch.cuda.get_device_name(plan.device), torch.cuda.memory_reserved(plan.device)
    return [f"{name}; {reserved / 2**30:.1f} GiB reserved with both runners."]
