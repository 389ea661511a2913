"""Configuration of a run: folder, length, device, validation, model card. No torch."""

from dataclasses import dataclass
from typing import Literal

from model.checkpoint.weights import NUMPY_TYPES, StorageType
from model.evaluation import Metric
from model.validators import require, require_choice, require_flag, require_integer, require_number

Precision = Literal["float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
_MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run: its folder, length and device. The first limit that is reached ends it.

    Attributes:
        folder: Where the run writes; it must not hold other files of the same names.
        seed: Of the initial weights, the dropout and the order of the data; below 2⁶³.
        max_steps: Most updates; 0 disables the limit.
        max_minutes: Most minutes of training, over all resumptions; 0 disables the limit.
        max_epochs: Most passes over the data; 0 disables the limit.
        save_every: Steps between saved states, from which `--resume` continues.
        log_every: Steps between lines of the log.
        start_from: Folder of a checkpoint with the initial weights. Its network must have the same shape; its
            vocabulary may differ.
        device: Where to compute; `auto` takes a GPU if there is one.
        precision: Of the matrix products; weights and optimiser stay in float32. `float16` needs CUDA.
        threads: Numeric threads on the CPU, at most 1024; 0 takes torch's default.
        compile: Use torch.compile.
        checkpoint_precision: Of the weights in checkpoints; float32 keeps every bit, int8 has a scale for
            each row of a matrix.
        plots: Write a report with pictures at the end (extra `train`); `dragoman report` writes it later.
        tensorboard: Write TensorBoard events (extra `train`).
    """

    folder: str = "runs/run"
    seed: int = 1
    max_steps: int = 0
    max_minutes: float = 0.0
    max_epochs: int = 0
    save_every: int = 500
    log_every: int = 20
    start_from: str | None = None
    device: Device = "auto"
    precision: Precision = "float32"
    threads: int = 0
    compile: bool = False
    checkpoint_precision: StorageType = "float32"
    plots: bool = True
    tensorboard: bool = False

    def __post_init__(self) -> None:
        require(bool(self.folder), "folder", "a path", self.folder)
        require(self.start_from != "", "start_from", "the folder of a checkpoint", self.start_from)
        require_integer("seed", self.seed, 0, 2**63 - 1)
        require_integer("threads", self.threads, 0, _MOST_THREADS)
        for name in ("max_steps", "max_epochs"):
            require_integer(name, getattr(self, name), 0)
        require_number("max_minutes", self.max_minutes, 0)
        limited = self.max_steps or self.max_minutes or self.max_epochs
        require(bool(limited), "max_steps", "above 0 (or max_minutes, or max_epochs)", self.max_steps)
        require_integer("save_every", self.save_every, 1)
        require_integer("log_every", self.log_every, 1)
        require_choice("device", self.device, ("auto", "cpu", "cuda"))
        require_choice("precision", self.precision, ("float32", "bfloat16", "float16"))
        require_choice("checkpoint_precision", self.checkpoint_precision, tuple(NUMPY_TYPES))
        for name in ("compile", "plots", "tensorboard"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How the network is validated, and which checkpoints are kept.

    Attributes:
        every: Steps between validations; the run also ends with one.
        metric: Chooses the best checkpoint, and decides when to stop early.
        patience: Stop after this many validations without a better score; 0 never stops early.
        keep_best: Number of checkpoints kept in addition to `best` and `last`: those with the best scores.
        max_sentences: Most sentences translated per direction; 0 translates all.
        samples: Translations per direction that are written into the log.
        heat_maps: Sentences per direction whose attention the report shows.
        batch_tokens: Most tokens of a batch that measures the loss.
    """

    every: int = 1000
    metric: Metric = "bleu"
    patience: int = 0
    keep_best: int = 0
    max_sentences: int = 0
    samples: int = 3
    heat_maps: int = 1
    batch_tokens: int = 8192

    def __post_init__(self) -> None:
        require_choice("metric", self.metric, ("bleu", "chrf"))
        require_integer("every", self.every, 1)
        for name in ("patience", "keep_best", "max_sentences", "samples", "heat_maps"):
            require_integer(name, getattr(self, name), 0)
        require_integer("batch_tokens", self.batch_tokens, 4)


@dataclass(frozen=True, kw_only=True)
class CardConfig:
    """The model card of the checkpoints.

    Attributes:
        name: Short name; letters, digits and `._+-`.
        version: Of these weights, in the same characters.
        max_source_length: Most source tokens of a sentence, tag and EOS included.
        max_target_length: Most target tokens of a translation, EOS included.
    """

    name: str = "dragoman"
    version: str = "1"
    max_source_length: int = 256
    max_target_length: int = 256

    def __post_init__(self) -> None:
        require_integer("max_source_length", self.max_source_length, 2)
        require_integer("max_target_length", self.max_target_length, 1)
