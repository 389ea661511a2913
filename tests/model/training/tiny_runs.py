"""Training runs of a few seconds: made-up text, a network 16 wide."""

from pathlib import Path
from typing import Any

from model.training.train_config import TrainConfig
from tests.model.training.parallel_text import write_corpus

_TINY: dict[str, dict[str, Any]] = {
    "vocabulary": {"kind": "char", "size": 64, "byte_fallback": False},
    "batches": {"max_tokens": 800, "prefetch": 2},
    "network": {
        "preset": "small",
        "model_dim": 16,
        "num_heads": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "ffn_dim": 16,
    },
    "schedule": {"warmup_steps": 4},
    "validation": {"every": 4, "max_sentences": 2, "samples": 1, "heat_maps": 0},
    "run": {"max_steps": 8, "save_every": 3, "log_every": 2, "device": "cpu", "seed": 5, "plots": False},
    "decoding": {"strategy": "greedy", "max_length": 5},
}


def tiny_values(folder: Path, **sections: dict[str, Any]) -> dict[str, Any]:
    """A whole configuration in the shape of the TOML file; given sections are merged into it."""
    corpus = folder / "train.tsv"
    if not corpus.exists():
        write_corpus(corpus, 60)
        write_corpus(folder / "valid.tsv", 6, seed=1)
    languages = {"source_language": "en", "target_language": "fr", "bidirectional": True}
    values: dict[str, Any] = {
        "corpora": [{"path": str(corpus), **languages}],
        "validation_corpora": [{"path": str(folder / "valid.tsv"), **languages}],
    }
    for name in _TINY.keys() | sections.keys():
        values[name] = {**_TINY.get(name, {}), **sections.get(name, {})}
    values["run"].setdefault("folder", str(folder / "run"))
    return values


def tiny_run(folder: Path, **sections: dict[str, Any]) -> TrainConfig:
    """The same as a TrainConfig."""
    return TrainConfig.from_dict(tiny_values(folder, **sections))
