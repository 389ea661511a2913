"""Two looks into our engine on a GPU: whether recorded steps translate as exact ones do, and where time goes.

python -m benchmarks.engines.gpu_checks correctness --device cuda --shape base
python -m benchmarks.engines.gpu_checks profile --device cuda --shape base
"""

from collections.abc import Iterator, Mapping, Sequence

import click
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.engines.weights import SHAPES, endless_network
from benchmarks.harness.options import Benchmark, Timing, counted, deliver, device_option, timing_options
from benchmarks.harness.report import Report
from benchmarks.harness.texts import random_sentences
from model.config import TransformerConfig
from model.decoding.engine import DecodingEngine
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Interrupt, Result, Runner
from model.decoding.sentence import Sentence
from model.errors import TranslationError
from model.request import DecodeOptions, DecodeRequest
from model.training.report.utilisation import wait_for

SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "greedy, no n-gram twice": {
        "strategy": "greedy",
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.2,
        "min_length": 4,
    },
    "sample": {"strategy": "sample", "temperature": 0.8, "top_k": 20},
    "sample, nucleus": {"strategy": "sample", "top_p": 0.9, "min_p": 0.001},
    "beam 4": {"strategy": "beam", "beam_size": 4, "num_hypotheses": 2},
    "beam 4, coverage": {"strategy": "beam", "beam_size": 4, "coverage_penalty": 0.2, "stop": "all"},
}
_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_LONGEST, _TOKENS, _SHORTEST = 128, 24, 4
_FEW_TOKENS_A_STEP = 64
_STEPS, _ROWS = 4, 25


def _runner(device: str, config: TransformerConfig, rows: int, kind: str, precision: torch.dtype) -> Runner:
    """A warm runner, `static` or `exact`, of a network that never ends a sentence."""
    network = endless_network(config, seed=1).to(device=torch.device(device), dtype=precision)
    positions = 4 * rows * _LONGEST
    if kind == "exact":
        return TorchRunner(network, torch.device(device), max_rows=4 * rows, max_positions=positions)
    runner = StaticRunner(
        network, device, max_rows=4 * rows, max_positions=positions, widths=(1, 4), capacity=_LONGEST
    )
    runner.warm_up()
    return runner


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Check our engine on a GPU."""


@main.command(cls=Benchmark)
@click.option("--shape", default="base", type=click.Choice(list(SHAPES)), help="Network.")
@counted("sentences", 128, "Sentences for each search.")
@device_option
@timing_options
def correctness(shape: str, sentences: int, device: str, timing: Timing) -> None:
    """Compare recorded steps with exact ones, and both with a CPU, for every search.

    Exit status 1 if translations in float32 differ.
    """
    report = Report(timing.name or "correctness", {"shape": shape, "device": device})
    report.notes.append("Rounding tips near ties: only in float32 must all translations be the same.")
    results = list(_compare(SHAPES[shape], sentences, device, timing.seed))
    rows = [
        {
            **{name: str(each[name]) for name in ("precision", "search", "compared")},
            "same translations": f"{each['same']} of {each['of']}",
            "largest difference of a score": f"{each['largest_difference']:.2g}",
        }
        for each in results
    ]
    report.add("Correctness", rows, "correctness", results)
    deliver(report, timing.output)
    if any(each["precision"] == "float32" and each["same"] != each["of"] for each in results):
        raise click.exceptions.Exit(1)


def _compare(config: TransformerConfig, count: int, device: str, seed: int) -> Iterator[Mapping[str, object]]:
    cpu = _runner("cpu", config, count, "exact", torch.float32)
    for name, precision in _PRECISIONS.items():
        static, exact = (_runner(device, config, count, kind, precision) for kind in ("static", "exact"))
        for search, options in SEARCHES.items():
            requests = _requests(config, options, count, seed)
            by_static, by_exact = (_decode(each, config, requests) for each in (static, exact))
            yield {
                "precision": name,
                "search": search,
                "compared": "static, exact",
                **_same(by_static, by_exact),
            }
            if name == "float32":
                few = _decode(cpu, config, requests[: max(2, count // 8)])
                found = _same(by_exact[: len(few)], few)
                yield {"precision": name, "search": search, "compared": "exact, cpu", **found}


def _requests(
    config: TransformerConfig, options: Mapping[str, object], count: int, seed: int
) -> list[DecodeRequest]:
    """Translations end at lengths of their own, so that slots are taken again and again."""
    return [
        DecodeRequest(
            tuple(ids[-max(2, len(ids) - i % 9) :]),
            DecodeOptions.from_dict({**options, "max_length": _SHORTEST + 7 * i % (2 * _TOKENS), "seed": i}),
        )
        for i, ids in enumerate(random_sentences(config, count, _TOKENS, seed))
    ]


def _decode(runner: Runner, config: TransformerConfig, requests: Sequence[DecodeRequest]) -> list[Result]:
    engine = DecodingEngine(runner, config, max_batch_tokens=10**6, max_encode_tokens=_FEW_TOKENS_A_STEP)
    return engine.decode(requests)


def _same(some: Sequence[Result], others: Sequence[Result]) -> Mapping[str, object]:
    pairs = list(zip(map(_hypotheses, some), map(_hypotheses, others), strict=True))
    return {
        "same": sum([ids for ids, _ in one] == [ids for ids, _ in other] for one, other in pairs),
        "of": len(pairs),
        "largest_difference": max(abs(one[0][1] - other[0][1]) for one, other in pairs),
    }


def _hypotheses(result: Result) -> list[tuple[tuple[int, ...], float]]:
    if isinstance(result, TranslationError):
        raise result
    return [(each.token_ids, each.score) for each in result]


@main.command(name="profile", cls=Benchmark)
@click.option("--shape", default="base", type=click.Choice(list(SHAPES)), help="Network.")
@counted("sentences", 256, "Sentences side by side.")
@device_option
@timing_options
def profile_step(shape: str, sentences: int, device: str, timing: Timing) -> None:
    """Show the kernels, or on a CPU the operators, of some greedy steps."""
    config, is_gpu = SHAPES[shape], device == "cuda"
    runner = _runner(device, config, sentences, "static", torch.bfloat16 if is_gpu else torch.float32)
    options = DecodeOptions(strategy="greedy", max_length=_TOKENS)
    sources = random_sentences(config, sentences, _TOKENS, timing.seed)
    runner.admit([Sentence.admit(DecodeRequest(tuple(ids), options), config) for ids in sources])
    runner.advance(Interrupt(), 1)
    wait_for(torch.device(device))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])]
    with profile(activities=activities) as recorded:
        runner.advance(Interrupt(), _STEPS)
        wait_for(torch.device(device))
    measured = "self_device_time_total" if is_gpu else "self_cpu_time_total"
    events = sorted(recorded.key_averages(), key=lambda event: -getattr(event, measured))[:_ROWS]
    rows = [
        {
            "kernel" if is_gpu else "operator": event.key[:90],
            "calls a step": f"{event.count / _STEPS:g}",
            "µs a step": f"{getattr(event, measured) / _STEPS:,.1f}",
        }
        for event in events
    ]
    report = Report(timing.name or "profile", {"shape": shape, "device": device})
    report.add(f"Profile of a step, {sentences} sentences", rows, "profile", rows)
    deliver(report, timing.output)


if __name__ == "__main__":
    main()
