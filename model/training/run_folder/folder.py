"""ⓔ Where a run keeps what it writes, and the lock that keeps other processes out.

runs/NAME/
  lock                 held by the process that trains
  config.json          the merged configuration of the run
  data/                token ids of all pairs, memory-mapped, and the report of the cleaning
  tokenizer/           the tokenizer, trained or copied
  state/               the newest state, for --resume
  log.jsonl            losses, rates and scores, one event a line
  checkpoints/last     the newest checkpoint folder
  checkpoints/best     the one with the best score so far
  checkpoints/step-N   the n best, if asked for
  translations/        of the held-out text: validation's first and best
  report/              what became of it, to open in a browser: index.html
  tensorboard/         events, if asked for
  provenance.json      what was trained on what, how long, with which scores
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
    """Held from its making until `release`, or until the process ends, however it ends.

    Args:
        file: What is locked; it is made, and stays.

    Raises:
        TrainingError: If another process holds it.
        OSError: If the file cannot be made.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("a")
        self._close = weakref.finalize(self, self._file.close)  # whoever forgets to release it
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise TrainingError(f"another process trains in {file.parent}") from error
        except OSError as error:  # some network file systems know no locks
            logger.warning("%s cannot be locked: let no other process train there (%s)", file.parent, error)

    def release(self) -> None:
        """Let others in."""
        self._close()


@dataclass(frozen=True)
class RunFolder:
    """Names of the parts of a run's folder.

    Attributes:
        root: The folder itself.
    """

    root: Path

    @property
    def foreign_parts(self) -> list[Path]:
        """What stands where a run would write, though no run ever began here: somebody else's files."""
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
        """Whether a run began here; its lock is empty, as others called so may not be."""
        return self.lock.is_file() and not self.lock.stat().st_size

    @property
    def config(self) -> Path:
        """The merged configuration."""
        return self.root / "config.json"

    @property
    def lock(self) -> Path:
        """What the process that trains holds."""
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
        """The journal."""
        return self.root / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Checkpoint folders."""
        return self.root / "checkpoints"

    @property
    def best_checkpoint(self) -> Path:
        """The one with the best score so far."""
        return self.checkpoints / "best"

    @property
    def good_checkpoint(self) -> Path | None:
        """What to take from the run: the best checkpoint, else the last; None before the first."""
        return good_checkpoint(self.root)

    @property
    def translations(self) -> Path:
        """Validation's translations at first and at best."""
        return self.root / "translations"

    @property
    def report(self) -> Path:
        """The page and its pictures."""
        return self.root / "report"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's events."""
        return self.root / "tensorboard"

    @property
    def provenance(self) -> Path:
        """What was trained on what."""
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
