"""ⓔ The files of a run, and the lock of its folder.

runs/NAME/
  lock                 locked by the process that trains
  config.json          the merged configuration of the run
  data/                token ids of all pairs, memory-mapped, and the report of the cleaning
  tokenizer/           the tokenizer, trained or copied
  state/               the newest state, for --resume
  log.jsonl            losses, rates and scores, one event per line
  checkpoints/last     the newest checkpoint folder
  checkpoints/best     the one with the best score so far
  checkpoints/step-N   the n best, with validation.keep_best
  translations/        of the held-out text at the first and the best validation
  report/              index.html and its pictures
  tensorboard/         events, with run.tensorboard
  provenance.json      data, code, steps, scores, time, machine
"""

import fcntl
import logging
import weakref
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.paths import good_checkpoint, is_run_folder
from model.errors import TrainingError

logger = logging.getLogger(__name__)


class FolderLock:
    """An exclusive lock, held until `release` or the end of the process.

    Args:
        file: What is locked; created if missing, and never deleted.

    Raises:
        TrainingError: If another process holds it.
        OSError: If the file cannot be created.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._close = weakref.finalize(self, self._file.close)  # for a Run that is never run
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise TrainingError(f"another process trains in {file.parent}") from error
        except OSError as error:  # some network file systems have no locks
            logger.warning("%s cannot be locked: let no other process train there (%s)", file.parent, error)

    def release(self) -> None:
        """Unlock the file."""
        self._close()


@dataclass(frozen=True)
class RunFolder:
    """Paths of the parts of a run's folder.

    Attributes:
        root: The folder itself.
    """

    root: Path

    @property
    def foreign_parts(self) -> list[Path]:
        """Existing files that a run would overwrite, in a folder where no run ever began."""
        parts = (
            self.config,
            self.data,
            self.tokenizer,
            self.state,
            self.log,
            self.checkpoints,
            self.translations,
            self.report,
            self.tensorboard,
            self.provenance,
        )
        there = [part for part in parts if part.exists() or part.is_symlink()]
        return [] if self._is_locked_once or is_run_folder(self.root) else there

    @property
    def _is_locked_once(self) -> bool:
        """Whether a run began here; a run's lock is empty, other files of that name may not be."""
        return self.lock.is_file() and not self.lock.stat().st_size

    @property
    def config(self) -> Path:
        """The merged configuration."""
        return self.root / "config.json"

    @property
    def lock(self) -> Path:
        """Locked by the process that trains."""
        return self.root / "lock"

    @property
    def data(self) -> Path:
        """Memory-mapped token ids."""
        return self.root / "data"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's files."""
        return self.root / "tokenizer"

    @property
    def state(self) -> Path:
        """The newest state."""
        return self.root / "state"

    @property
    def log(self) -> Path:
        """The log of updates and validations."""
        return self.root / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Checkpoint folders."""
        return self.root / "checkpoints"

    @property
    def best_checkpoint(self) -> Path:
        """The checkpoint with the best score so far."""
        return self.checkpoints / "best"

    @property
    def good_checkpoint(self) -> Path | None:
        """The best checkpoint, else the last; None before the first."""
        return good_checkpoint(self.root)

    @property
    def translations(self) -> Path:
        """Translations of the first and the best validation."""
        return self.root / "translations"

    @property
    def report(self) -> Path:
        """The HTML page and its pictures."""
        return self.root / "report"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's events."""
        return self.root / "tensorboard"

    @property
    def provenance(self) -> Path:
        """Data, code, steps, scores, time, machine."""
        return self.root / "provenance.json"


def lock_folder(folder: RunFolder) -> FolderLock:
    """Make the folder of a run if need be, and lock it.

    Raises:
        TrainingError: If the folder holds files that no run wrote where a run writes, if another process
            trains there, or if it cannot be written to.
    """
    if foreign := folder.foreign_parts:
        names = ", ".join(part.name for part in foreign)
        kept = f"{folder.root} holds {names}, which no run has written"
        raise TrainingError(f"{kept}: name a new or an empty folder")
    try:
        folder.root.mkdir(parents=True, exist_ok=True)
        return FolderLock(folder.lock)
    except OSError as error:
        raise TrainingError(f"cannot write to {folder.root}: {error.strerror}") from error
