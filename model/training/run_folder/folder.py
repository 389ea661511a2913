"""The files of a run, and the lock of its folder.

runs/NAME/
  lock                 locked by the process that trains
  config.json          the merged configuration of the run
  data/                token ids of all pairs, memory-mapped, the report of the cleaning, and what the
                       tokenizer was made of
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
from pathlib import Path

from model.checkpoint.manifest import good_checkpoint, is_run_folder
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


class RunFolder:
    """Paths of the parts of a run's folder, which the module describes.

    Args:
        root: The folder itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / "lock"
        self.config = root / "config.json"
        self.data = root / "data"
        self.tokenizer = root / "tokenizer"
        self.state = root / "state"
        self.log = root / "log.jsonl"
        self.checkpoints = root / "checkpoints"
        self.best_checkpoint = self.checkpoints / "best"
        self.translations = root / "translations"
        self.report = root / "report"
        self.tensorboard = root / "tensorboard"
        self.provenance = root / "provenance.json"

    @property
    def good_checkpoint(self) -> Path | None:
        """The best checkpoint, else the last; None before the first."""
        return good_checkpoint(self.root)

    @property
    def foreign_parts(self) -> list[Path]:
        """Existing files that a run would overwrite, in a folder where no run ever began."""
        # A run's lock is empty; other files of that name may not be.
        has_runs_lock = self.lock.is_file() and not self.lock.stat().st_size
        if has_runs_lock or is_run_folder(self.root):
            return []
        parts = (path for path in vars(self).values() if path.parent == self.root and path != self.lock)
        return [part for part in parts if part.exists() or part.is_symlink()]

    def remove_unused(self) -> None:
        """Delete the folder if it holds nothing but its lock, which no process holds."""
        if all(part == self.lock for part in self.root.iterdir()):
            self.lock.unlink(missing_ok=True)
            self.root.rmdir()


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
