"""Configuration of a run: folder, length, device, validation, model card. No torch."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from model.checkpoint.weights import StorageType
from model.evaluation import Metric
from model.training.config.fields import STRICT, Count, Number, Positive, Seed
from model.validators import require

Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RunConfig:
    """One run: its folder, length and device. The first limit that is reached ends it.

    Attributes:
        folder: Where the run writes; it must not hold other files of the same names.
        seed: Seed of the initial weights, the dropout and the order of the data; below 2⁶³.
        max_steps: Most updates; 0 disables the limit.
        max_minutes: Most minutes of training, over all resumptions; 0 disables the limit.
        max_epochs: Most passes over the data; 0 disables the limit.
        save_every: Steps between saved states, from which `--resume` continues.
        log_every: Steps between lines of the log.
        start_from: Folder of a checkpoint with the initial weights. Its network must have the same shape; its
            vocabulary may differ.
        device: Where to compute; `auto` takes a GPU if there is one.
        precision: Number type of the matrix products; weights and optimiser stay in float32. `float16` needs
            CUDA.
        threads: Numeric threads on the CPU, at most 1024; 0 takes torch's default.
        compile: Use torch.compile.
        checkpoint_precision: Number type of the weights in checkpoints; float32 keeps every bit, int8 has a
            scale for each row of a matrix.
        plots: Write a report with pictures at the end (extra `train`); `dragoman report` writes it later.
        tensorboard: Write TensorBoard events (extra `train`).
    """

    folder: str = "runs/run"
    seed: Seed = 1
    max_steps: Count = 0
    max_minutes: Annotated[Number, Field(ge=0)] = 0.0
    max_epochs: Count = 0
    save_every: Positive = 500
    log_every: Positive = 20
    start_from: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Precision = "float32"
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    compile: bool = False
    checkpoint_precision: StorageType = "float32"
    plots: bool = True
    tensorboard: bool = False

    def __post_init__(self) -> None:
        require(bool(self.folder), "folder", "a path", self.folder)
        require(self.start_from != "", "start_from", "the folder of a checkpoint", self.start_from)
        limited = self.max_steps or self.max_minutes or self.max_epochs
        require(bool(limited), "max_steps", "above 0 (or max_minutes, or max_epochs)", self.max_steps)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ValidationConfig:
    """How the network is validated, and which checkpoints are kept.

    Attributes:
        every: Steps between validations; the run also ends with one.
        metric: Chooses the best checkpoint, and decides when to stop early.
        patience: Stop after this many validations without a better score; 0 never stops early.
        keep_best: Number of checkpoints kept in addition to `best` and `last`: those with the best scores.
        held_out: Without validation corpora, hold out one pair in a hundred of the training corpora, if
            that gives each direction at least 50; 1,000 are translated per direction unless
            `max_sentences` says otherwise.
        max_sentences: Most sentences translated per direction; 0 translates all.
        samples: Translations per direction that are written into the log.
        heat_maps: Sentences per direction whose attention the report shows.
        batch_tokens: Most tokens of a batch that measures the loss.
    """

    every: Positive = 1000
    metric: Metric = "bleu"
    patience: Count = 0
    keep_best: Count = 0
    held_out: bool = True
    max_sentences: Count = 0
    samples: Count = 3
    heat_maps: Count = 1
    batch_tokens: Annotated[int, Field(ge=4)] = 8192


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CardConfig:
    """The model card of the checkpoints.

    Attributes:
        name: Short name; letters, digits and `._+-`.
        version: Version of these weights, in the same characters.
        max_source_length: Most source tokens of a sentence, tag and EOS included.
        max_target_length: Most target tokens of a translation, EOS included.
    """

    name: str = "dragoman"
    version: str = "1"
    max_source_length: Annotated[int, Field(ge=2)] = 256
    max_target_length: Positive = 256
