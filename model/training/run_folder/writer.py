"""ⓔ–ⓕ Writes everything that a run leaves in its folder: log, states, checkpoints, provenance and report.

States and checkpoints are copied at once and written by a thread, one after the other, so that neither this
process nor those that wait for its gradients stop for the disk. Provenance names data, code, steps, scores,
time and machine, but no person, host or full path.
"""

import hashlib
import importlib.metadata
import json
import logging
import platform
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

import model
from model.checkpoint.folder import save_checkpoint
from model.checkpoint.self_test import PROVENANCE_KEY
from model.config import TransformerConfig
from model.errors import TrainingError
from model.files import write_text_atomically
from model.training.config_sections import CorpusConfig
from model.training.data.corpus import corpus_files
from model.training.report.page import report_if_possible
from model.training.run_folder.folder import Event, Progress, RunFolder, RunLog, Translations
from model.training.run_folder.state import Position, save_run_state
from model.training.train_config import TrainConfig, paths
from model.training.validation import ValidationResult

logger = logging.getLogger(__name__)

_MOST_PENDING = 2
"""Writes that may wait for the disk: a checkpoint and the state that follows it."""


Save = Callable[[Path], None]
"""Writes the current weights into a checkpoint folder, atomically."""
_SOURCE = Path(model.__file__).resolve().parents[1]
"""The root of the checkout, or the folder that the package is installed in."""


@dataclass(frozen=True, kw_only=True)
class RunDescription:
    """The description of a run before its first update.

    Attributes:
        config: The run's configuration.
        data: Description by `describe_data`, and how the corpus was cleaned.
        device: Device that the run trains on.
        processes: How many train together, each on such a device.
        peak: Multiplications and additions per second of a large matrix product, measured on the device.
    """

    config: TrainConfig
    data: Mapping[str, object]
    device: torch.device
    processes: int = 1
    peak: float | None = None

    def provenance(
        self, position: Position, *, scores: Mapping[str, Any] | None, mfu: Sequence[float] = ()
    ) -> dict[str, object]:
        """Everything to know about the weights at a position.

        Args:
            position: How far the run is.
            scores: Those of the weights, as the log has them; None if there are none.
            mfu: Model FLOPs utilisations that were logged.
        """
        machine = {"processes": self.processes, "peak_flops": self.peak}
        return {
            "data": dict(self.data),
            "steps": position.step,
            "epochs": round(position.epoch, 3),
            "tokens": position.tokens,
            "seconds": round(position.seconds, 1),
            "scores": None if scores is None else _without_samples(scores),
            "code": code_version(),
            "machine": describe_machine(self.device) | machine,
            "mfu": median(mfu) if mfu else None,
            "config": plain_config(self.config),
        }


class CheckpointRetention:
    """Keeps the folders `last`, `best` and `step-N`.

    Args:
        folder: Their parent folder.
        keep_best: How many `step-N` folders to keep; those with the highest scores.

    Attributes:
        scores: Score of each `step-N` folder, by step.
    """

    def __init__(self, folder: Path, keep_best: int) -> None:
        self._folder = folder
        self._keep_best = keep_best
        self.scores: dict[int, float] = {}

    def put(self, step: int, score: float | None, save: Save, *, is_best: bool) -> None:
        """Save the current weights in every folder that they belong in.

        Args:
            step: When the weights were reached.
            score: What ranks them; None if nothing was translated.
            save: Writes one folder.
            is_best: Whether no earlier score was as good.
        """
        save(self._folder / "last")
        if is_best:
            save(self._folder / "best")
        if score is not None and self._keep_best:
            self._rank(step, score, save)

    def _rank(self, step: int, score: float, save: Save) -> None:
        ranked = sorted({**self.scores, step: score}.items(), key=lambda item: item[1], reverse=True)
        kept = dict(ranked[: self._keep_best])
        if step in kept:
            save(self._step_folder(step))
        for dropped in self.scores.keys() - kept.keys():
            shutil.rmtree(self._step_folder(dropped), ignore_errors=True)
        self.scores = kept

    def _step_folder(self, step: int) -> Path:
        return self._folder / f"step-{step:08d}"


class RunWriter:
    """Writes into the folder of a run; of several processes only the first has one.

    Args:
        folder: The run's folder.
        description: What the provenance says about the run.
        shape: The network's configuration.
        text: Fingerprints of the training and validation text, saved with every state.
        resuming: Keep the log and the translations of the run so far.

    Attributes:
        log: Updates and validations.
    """

    def __init__(
        self,
        folder: RunFolder,
        description: RunDescription,
        *,
        shape: TransformerConfig,
        text: Mapping[str, str],
        resuming: bool,
    ) -> None:
        if not resuming:
            folder.log.unlink(missing_ok=True)
            shutil.rmtree(folder.translations, ignore_errors=True)
        config = description.config
        self._folder = folder
        self._description = description
        self._config = config
        self._shape = shape
        self._text = text
        self.log = RunLog(folder, tensorboard=config.run.tensorboard)
        self.progress = Progress(config.run)
        self._retention = CheckpointRetention(folder.checkpoints, config.validation.keep_best)
        self._newest_scores: Event | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run-writer")
        self._pending: deque[Future[None]] = deque()

    def write_config(self) -> None:
        """Write the merged configuration.

        Raises:
            TrainingError: If it cannot be written.
        """
        try:
            text = json.dumps(self._config.to_dict(), indent=2, ensure_ascii=False)
            write_text_atomically(self._folder.config, text + "\n")
        except OSError as error:
            raise TrainingError(f"cannot write to {self._folder.root}: {error.strerror}") from error

    def write_update(self, position: Position, values: Mapping[str, float]) -> None:
        """Log and show the means over the updates since the last call."""
        reached = {
            "epoch": round(position.epoch, 4),
            "tokens": position.tokens,
            "seconds": round(position.seconds, 1),
        }
        self.log.record("update", position.step, {**values, **reached})
        self.progress.show(position.step, position.seconds / 60, position.epoch, values)

    def write_validation(
        self,
        position: Position,
        weights: Mapping[str, Tensor],
        result: ValidationResult | None,
        *,
        is_best: bool,
    ) -> None:
        """Log a validation, keep its translations, and begin to write its checkpoints.

        Args:
            position: When the weights were validated.
            weights: What was validated; not to be changed afterwards.
            result: None if there is no held-out text.
            is_best: Whether no earlier score was as good.
        """
        score = None
        if result is not None:
            score = result.score(self._config.validation.metric)
            values = result.to_dict(self._config.validation.samples) | {"epoch": round(position.epoch, 4)}
            self._newest_scores = self.log.record("validation", position.step, values)
            logger.info("step %d: %s", position.step, result.summary())
            self.log.keep(Translations(position.step, result.texts), is_best=is_best)
        provenance = self._provenance(position)
        if result is not None:
            provenance[PROVENANCE_KEY] = [sentence.to_dict() for sentence in result.self_test]
        save = partial(self._save_checkpoint, weights=weights, provenance=provenance)
        self._begin(partial(self._retention.put, position.step, score, save, is_best=is_best))

    def _save_checkpoint(
        self, folder: Path, weights: Mapping[str, Tensor], provenance: dict[str, object]
    ) -> None:
        save_checkpoint(
            folder,
            config=self._shape,
            weights=weights,
            card=self._config.model_card(),
            tokenizer_folder=self._folder.tokenizer,
            provenance=provenance,
            storage=self._config.run.checkpoint_precision,
        )

    def _provenance(self, position: Position) -> dict[str, object]:
        mfu = [event["mfu"] for event in self.log.events("update")]
        return self._description.provenance(position, scores=self._newest_scores, mfu=mfu)

    def save_state(self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, object]) -> None:
        """Copy the state of the run and begin to write it.

        Raises:
            TrainingError: If an earlier write failed; what was saved before it is kept.
        """
        copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
        self._begin(partial(self._save_state, step, copies, deepcopy(dict(values))))

    def _save_state(self, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, object]) -> None:
        kept = {str(step): score for step, score in self._retention.scores.items()}
        values = {**values, "text": dict(self._text), "kept_scores": kept}
        save_run_state(self._folder.state, step, tensors, values)

    def _begin(self, write: Callable[[], None]) -> None:
        self._settle(_MOST_PENDING - 1)
        self._pending.append(self._thread.submit(write))

    def wait(self) -> None:
        """Wait until everything is written.

        Raises:
            TrainingError: If a state cannot be written; the previous state is kept.
            CheckpointError: If a checkpoint cannot be written.
            OSError: If another file cannot be written.
        """
        self._settle(0)

    def _settle(self, most: int) -> None:
        """Wait until at most so many writes are pending; raise what a finished one raised."""
        while len(self._pending) > most or (self._pending and self._pending[0].done()):
            self._pending.popleft().result()

    def resume(self, step: int, validated_step: int, values: Mapping[str, Any]) -> None:
        """Return to a saved state: forget what was logged and translated after it."""
        self._retention.scores = {int(step): score for step, score in values["kept_scores"].items()}
        self.log.rewind(step, validated_step)
        self._newest_scores = next(reversed(self.log.events("validation")), None)

    def finish(self, position: Position, ended_by: str) -> None:
        """Write `provenance.json` and, with `run.plots`, the report of a run that was not interrupted."""
        self.wait()
        described = {**self._provenance(position), "ended_by": ended_by}
        write_text_atomically(
            self._folder.provenance, json.dumps(described, indent=2, ensure_ascii=False) + "\n"
        )
        if not self._config.run.plots:
            return
        if ended_by == "interrupted":
            root = self._folder.root
            logger.info("no report of an interrupted run; `dragoman report %s` writes one", root)
        else:
            report_if_possible(self._folder)

    def close(self) -> None:
        """End the writes that are pending, and close TensorBoard's file."""
        self._thread.shutdown()
        self.log.close()


def describe_data(corpora: Sequence[CorpusConfig]) -> list[dict[str, object]]:
    """Each corpus with the name, size and SHA-256 of its files."""
    return [
        {
            "languages": [corpus.source_language, corpus.target_language],
            "bidirectional": corpus.bidirectional,
            "weight": corpus.weight,
            "files": [_describe_file(path) for path in corpus_files(corpus)],
        }
        for corpus in corpora
    ]


def _describe_file(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "name": f"{path.resolve().parent.name}/{path.name}",
        "bytes": path.stat().st_size,
        "sha256": checksum,
    }


@cache
def code_version() -> dict[str, str | None]:
    """Version of the package, and the commit if the code is a git checkout."""
    return {"package": _package(), "commit": _commit()}


def _package() -> str | None:
    try:
        return importlib.metadata.version("dragoman")
    except importlib.metadata.PackageNotFoundError:
        return None  # the checkout is not installed; the commit identifies the code


def _commit() -> str | None:
    if not (_SOURCE / ".git").exists():  # installed, perhaps inside another project's checkout
        return None
    command = ["git", "-C", str(_SOURCE), "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None  # git is missing; the package version identifies the code
    return answer.stdout.strip()


def describe_machine(device: torch.device) -> dict[str, object]:
    """Device, threads and library versions."""
    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def plain_config(config: TrainConfig) -> dict[str, Any]:
    """The configuration with each path cut to its last two parts."""
    values = config.to_dict()
    for table, name in paths(values):
        table[name] = "/".join(Path(table[name]).parts[-2:])
    return values


def _without_samples(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scores without sample translations, because corpus text may not be redistributed."""
    directions = {
        pair: {name: value for name, value in found.items() if name != "samples"}
        for pair, found in scores["directions"].items()
    }
    return {**scores, "directions": directions}
