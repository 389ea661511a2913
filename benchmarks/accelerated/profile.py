"""Where a step's time goes, kernel by kernel."""

from torch.profiler import ProfilerActivity, profile

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.report import Table
from benchmarks.work import random_sentences
from model.decoding.runner import Interrupt
from model.decoding.sentence import Sentence
from model.request import DecodeOptions, DecodeRequest
from model.training.report.utilisation import wait_for

_STEPS = 4
_ROWS = 25


def find_hot_spots(plan: Plan) -> Finding:
    """A few greedy steps of as many sentences as there may be."""
    runner = plan.static_runner(plan.network(plan.precision))
    options = DecodeOptions(strategy="greedy", max_length=plan.tokens)
    sources = random_sentences(plan.config, max(plan.slots), plan.source_tokens, plan.seed)
    runner.admit([Sentence.admit(DecodeRequest(tuple(ids), options), plan.config) for ids in sources])
    runner.advance(Interrupt(), 1)
    wait_for(plan.device)
    on_gpu = plan.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as recorded:
        runner.advance(Interrupt(), _STEPS)
        wait_for(plan.device)
    measured = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    events = sorted(recorded.key_averages(), key=lambda event: -getattr(event, measured))[:_ROWS]
    rows = [
        (event.key[:90], f"{event.count / _STEPS:g}", f"{getattr(event, measured) / _STEPS:,.1f}")
        for event in events
    ]
    columns = ("kernel" if on_gpu else "operator", "calls a step", "µs a step")
    title = f"Profile of a step, {max(plan.slots)} sentences"
    results = [{"kind": "profile", "name": name, "calls": calls, "us": us} for name, calls, us in rows]
    return Finding(tables=[Table(title=title, columns=columns, rows=rows)], results=results)
