"""Other engines on the same device, with the same weights and sentences."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.accelerated.plan import Finding, Plan
from benchmarks.engine import OURS, Ids, Translations
from benchmarks.machine import installed_version
from benchmarks.report import Table, rounded
from benchmarks.rounds import Duration, median_seconds, speed_ratio, take_turns, timed
from benchmarks.work import random_sentences
from model.decoding.engine import DecodingEngine
from model.errors import TranslationError
from model.request import DecodeOptions, DecodeRequest
from model.training.report.utilisation import wait_for

_COLUMNS = ("engine", "search", "sentences/s", "ours over theirs", "same translations")
Decode = Callable[[Sequence[Ids], DecodeOptions], Translations]


def race(plan: Plan) -> Finding:
    """One batch at a time, encoder and all; greedy and with four beams."""
    notes: list[str] = []
    rows, results = [], []
    with TemporaryDirectory() as scratch:
        engines = _line_up(plan, Path(scratch), notes)
        for search in ("greedy", "beam"):
            options = DecodeOptions(strategy=search, max_length=plan.source_tokens)
            sources = random_sentences(plan.config, plan.batch_size, plan.source_tokens, plan.seed)
            found = {name: decode(sources, options) for name, decode in engines.items()}  # warms up, too
            runs = {
                name: partial(_run, plan.device, partial(decode, sources, options))
                for name, decode in engines.items()
            }
            timings = take_turns(runs, plan.rounds)
            for name, durations in timings.items():
                seconds = median_seconds(durations, "wall")
                ratio = speed_ratio(timings[OURS], durations, "wall")
                same = sum(a == b for a, b in zip(found[name], found[OURS], strict=True))
                speed = rounded(plan.batch_size / seconds)
                rows.append((name, search, speed, str(ratio), f"{same} of {len(found[name])}"))
                results.append({"kind": "race", "engine": name, "search": search, "seconds": seconds})
    table = Table(title=f"Batches of {plan.batch_size}", columns=_COLUMNS, rows=rows)
    return Finding(tables=[table], results=results, notes=notes)


def _line_up(plan: Plan, scratch: Path, notes: list[str]) -> dict[str, Decode]:
    engines: dict[str, Decode] = {OURS: _ours(plan)}
    if installed_version("transformers"):
        engines["hugging face"] = _hugging_face(plan)
    else:
        notes.append("Left out: Hugging Face (not installed).")
    if reason := _why_no_ctranslate2(plan):
        notes.append(f"Left out: CTranslate2 ({reason}).")
    else:
        engines["ctranslate2"] = _ctranslate2(plan, scratch)
    return engines


def _ours(plan: Plan) -> Decode:
    runner = plan.static_runner(plan.network(plan.precision), widths=(1, 4))
    engine = DecodingEngine(runner, plan.config, max_batch_tokens=10**6, max_encode_tokens=10**6)

    def decode(sources: Sequence[Ids], options: DecodeOptions) -> Translations:
        translations: Translations = []
        for result in engine.decode([DecodeRequest(tuple(ids), options) for ids in sources]):
            if isinstance(result, TranslationError):
                raise result
            translations.append(result[0].token_ids)
        return translations

    return decode


def _hugging_face(plan: Plan) -> Decode:
    from benchmarks.peers.hugging_face import HuggingFaceEngine
    from model.checkpoint.formats.hugging_face import hugging_face_model, suitable_architecture

    model = hugging_face_model(
        plan.network(torch.float32, torch.device("cpu")), suitable_architecture(plan.config)
    )
    torch.nn.Module.to(model, device=plan.device, dtype=plan.precision)
    return partial(HuggingFaceEngine(model).decode, batch_size=plan.batch_size)


def _why_no_ctranslate2(plan: Plan) -> str:
    if not installed_version("ctranslate2"):
        return "not installed"
    if plan.device.type == "cuda":
        import ctranslate2

        return "" if ctranslate2.get_cuda_device_count() else "built without CUDA"
    return ""


def _ctranslate2(plan: Plan, scratch: Path) -> Decode:
    from benchmarks.checkpoints import random_checkpoint
    from benchmarks.peers.ctranslate2 import CTranslate2Engine
    from model.checkpoint.folder import load_checkpoint
    from model.checkpoint.formats.export import export_checkpoint

    checkpoint = load_checkpoint(random_checkpoint(scratch / "checkpoint", plan.shape, plan.seed))
    precision = str(plan.precision).removeprefix("torch.")
    export_checkpoint(checkpoint, scratch / "exported", "ctranslate2", precision)
    engine = CTranslate2Engine(scratch / "exported", precision, 1, device=plan.device.type)
    return partial(engine.decode, batch_size=plan.batch_size)


def _run(device: torch.device, decode: Callable[[], Translations], _: int) -> Duration:
    wait_for(device)
    return timed(decode)  # which hands out translations: nothing is left to wait for
