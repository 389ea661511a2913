"""What a run needs beside data and mathematics: where, how long, how often, on what. No torch."""

from dataclasses import dataclass
from typing import Literal

from model.evaluation import Metric
from model.validators import require, require_choice, require_flag, require_integer, require_number

Precision = Literal["float32", "bfloat16", "float16"]
Device = Literal["auto", "cpu", "cuda"]
_MOST_THREADS = 1024


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run: its folder, its length, its machine. Of several limits the first one reached ends it.

    Attributes:
        folder: Where everything goes that the run writes; without files of others in its places.
        seed: Of the initial weights, the dropout and the order of the data; below 2⁶³.
        max_steps: Updates; 0 for no limit.
        max_minutes: Minutes of training, summed over all resumptions; 0 for no limit.
        max_epochs: Passes over the data; 0 for no limit.
        save_every: Steps between two saved states, from which `--resume` goes on.
        log_every: Steps between two lines of the log.
        start_from: Folder of a checkpoint whose weights the run begins with; its network must be of the
            same shape, its vocabulary may be another.
        device: Where to compute; `auto` takes a GPU if there is one.
        precision: Of the matrix products; weights and optimiser stay in float32. `float16` needs CUDA.
        threads: Numeric threads on the CPU, at most 1024; 0 leaves it to torch.
        compile: Use torch.compile.
        checkpoint_precision: What checkpoints store the weights in; float32 keeps every bit.
        plots: Write a report with pictures at the end (extra `train`); `dragoman report` does so later.
        tensorboard: Write TensorBoard events as well (extra `train`).
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
    checkpoint_precision: Precision = "float32"
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
        choices = ("float32", "bfloat16", "float16")
        require_choice("checkpoint_precision", self.checkpoint_precision, choices)
        for name in ("compile", "plots", "tensorboard"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """How the network is judged on the way, and which checkpoints stay.

    Attributes:
        every: Steps between two validations; one more always ends the run.
        metric: What chooses the best checkpoint and stops early; never the loss.
        patience: Validations without a better score after which to stop; 0 never stops early.
        keep_best: Checkpoints kept beside `best` and `last`: those with the n best scores.
        max_sentences: Sentences translated for each direction; 0 translates all.
        samples: Translations written into the log for each direction.
        heat_maps: Sentences of each direction whose attention the report shows.
        batch_tokens: Size of the batches that measure the loss.
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
    """What the checkpoint says about itself.

    Attributes:
        name: Short name; letters, digits and `._+-`.
        version: Of these weights, in the same characters.
        max_source_length: Most source tokens of one sentence that it accepts, tag and EOS included.
        max_target_length: Most target tokens of one translation, EOS included.
    """

    name: str = "dragoman"
    version: str = "1"
    max_source_length: int = 256
    max_target_length: int = 256

    def __post_init__(self) -> None:
        require_integer("max_source_length", self.max_source_length, 2)
        require_integer("max_target_length", self.max_target_length, 1)
