"""ⓕ A run in a few lines: what was trained on what, for how long, how fast."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from model.training.reporting.run_record import RunRecord
from model.training.run_config import METRIC_NAMES

Fact = tuple[str, str]
"""A name, and what is to be said."""


def summarise(record: RunRecord) -> list[Fact]:
    """The facts that this run has, in the order in which one asks for them."""
    return [*_progress(record), *_network(record), *_data(record), *_speed(record), *_place(record)]


def _progress(record: RunRecord) -> Iterator[Fact]:
    provenance = record.provenance or {}
    if record.has_ended:
        yield "State", f"ended by {provenance['ended_by']}" if "ended_by" in provenance else "ended"
    else:
        yield "State", "under way, or stopped without a word"
    latest = next(reversed(record.updates), None)
    if latest is not None:
        yield "Steps", f"{latest['step']:,} ({latest['epoch']:.2f} epochs)"
        yield "Tokens seen", f"{latest['tokens']:,} (source and target, without padding)"
        seconds = latest.get("seconds", provenance.get("seconds"))
        if seconds is not None:
            yield "Time of training", _duration(seconds)
    best = record.best_validation
    if best is not None:
        yield (
            "Best validation",
            f"step {best['step']:,}, {METRIC_NAMES[record.metric]} {best[record.metric]:.2f}",
        )


def _network(record: RunRecord) -> Iterator[Fact]:
    if record.checkpoint is None:
        yield "Network", str(record.config.get("network", {}).get("preset", ""))
        return
    config = record.checkpoint.config
    layers = f"{config.num_encoder_layers} encoder and {config.num_decoder_layers} decoder layers"
    sizes = f"{config.model_dim} wide, feed-forward {config.ffn_dim}, {config.num_heads} heads"
    yield "Network", f"{layers}, {sizes}"
    yield "Parameters", f"{record.checkpoint.num_parameters:,}"
    yield "Vocabulary", f"{config.source_vocab_size:,} and {config.target_vocab_size:,} pieces"


def _data(record: RunRecord) -> Iterator[Fact]:
    data: Mapping[str, Any] = (record.provenance or {}).get("data", {})
    for name, title in (("train", "Trained on"), ("validation", "Validated on")):
        corpora = [
            f"{'↔' if c['bidirectional'] else '→'}".join(c["languages"]) + f" {_names(c)}"
            for c in data.get(name, ())
        ]
        if corpora:
            yield title, "; ".join(corpora)
    if "pairs_kept" in data:
        dropped = sum(data["pairs_dropped"].values())
        yield "Pairs", f"{data['pairs_kept']:,} kept, {dropped:,} dropped in cleaning"


def _speed(record: RunRecord) -> Iterator[Fact]:
    speeds = [event["tokens_per_second"] for event in record.updates]
    if speeds:
        yield "Throughput", f"{median(speeds):,.0f} tokens/s (median)"
    for value, title in (("mfu", "Model FLOPs utilisation"), ("padding_share", "Padding")):
        shares = [event[value] for event in record.updates if value in event]
        if shares:
            yield title, f"{median(shares):.1%} (median)"
    seconds = [event["seconds"] for event in record.validations]
    if seconds:
        decoder = record.validations[-1].get("decoder", "")
        yield "A validation", f"{median(seconds):.1f} s (median){f', {decoder}' if decoder else ''}"


def _place(record: RunRecord) -> Iterator[Fact]:
    provenance = record.provenance or {}
    if machine := provenance.get("machine"):
        yield "Machine", f"{machine['device']}, {machine['threads']} threads, torch {machine['torch']}"
    if code := provenance.get("code"):
        yield "Code", " ".join(str(value) for value in code.values() if value)


def _names(corpus: Mapping[str, Any]) -> str:
    return ", ".join(str(file["name"]) for file in corpus["files"])


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{seconds / 60:.1f} min"
