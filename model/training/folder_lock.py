"""ⓔ One process at a time in a run's folder."""

import fcntl
import logging
import weakref
from pathlib import Path

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
