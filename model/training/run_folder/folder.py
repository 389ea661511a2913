"""The files of a run, the lock of its folder, its log and its progress on a terminal.

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
import json
import logging
import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from model.checkpoint.manifest import is_run_folder
from model.errors import ConfigError, TrainingError
from model.files import write_text_atomically
from model.training.config_sections import RunConfig
from model.training.validation import TranslatedText

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)

Event = Mapping[str, Any]
Moment = Literal["first", "best"]


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
        self.translations = root / "translations"
        self.report = root / "report"
        self.tensorboard = root / "tensorboard"
        self.provenance = root / "provenance.json"

    @property
    def foreign_parts(self) -> list[Path]:
        """Existing files that a run would overwrite, in a folder where no run ever began."""
        # A run's lock is empty; other files of that name may not be.
        has_runs_lock = self.lock.is_file() and not self.lock.stat().st_size
        if has_runs_lock or is_run_folder(self.root):
            return []
        parts = (path for path in vars(self).values() if path not in (self.root, self.lock))
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


@dataclass(frozen=True)
class Translations:
    """Translations of one validation.

    Attributes:
        step: Step of the validation.
        texts: One for each direction.
    """

    step: int
    texts: tuple[TranslatedText, ...]


class RunLog:
    """Appends events to the log, and reads them; keeps the translations of the first and best validation.

    An event has a `kind` and a `step`.

    Args:
        folder: The run's folder.
        tensorboard: Write every number of every event as a TensorBoard scalar as well.

    Raises:
        ConfigError: If TensorBoard is not installed.
    """

    def __init__(self, folder: RunFolder, *, tensorboard: bool = False) -> None:
        self._file = folder.log
        self._translations = folder.translations
        self._scalars = _tensorboard_writer(str(folder.tensorboard)) if tensorboard else None

    def record(self, kind: str, step: int, values: Event) -> Event:
        """Append an event, and return it."""
        event = {"kind": kind, "step": step, **values}
        with self._file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(event, ensure_ascii=False) + "\n")
        if self._scalars is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._scalars.add_scalar(f"{kind}/{name}", value, step)
            self._scalars.flush()
        return event

    def close(self) -> None:
        """Close TensorBoard's file; the log itself is open only during `record`."""
        if self._scalars is not None:
            self._scalars.close()

    def events(self, kind: str | None = None) -> list[Event]:
        """The events so far, all or of one kind, in order.

        Raises:
            TrainingError: If a line is damaged.
        """
        return [event for event in self._read() if kind in (None, event["kind"])]

    def keep(self, translations: Translations, *, is_best: bool) -> None:
        """Keep translations as the first if there are none yet, and as the best if `is_best`."""
        self._translations.mkdir(parents=True, exist_ok=True)
        values = {"step": translations.step, "texts": [vars(text) for text in translations.texts]}
        wanted: dict[Moment, bool] = {"first": self.translations("first") is None, "best": is_best}
        for moment in wanted:
            if wanted[moment]:
                file = self._translations / f"{moment}.json"
                write_text_atomically(file, json.dumps(values, ensure_ascii=False))

    def translations(self, moment: Moment) -> Translations | None:
        """The translations of the first or the best validation; None if there are none."""
        file = self._translations / f"{moment}.json"
        if not file.exists():
            return None
        values = json.loads(file.read_text(encoding="utf-8"))
        return Translations(values["step"], tuple(map(_translated_text, values["texts"])))

    def rewind(self, step: int, validated_step: int) -> None:
        """Remove updates after `step`, and what validations after `validated_step` left: all is repeated."""
        newest = {"validation": validated_step}
        kept = [
            json.dumps(event, ensure_ascii=False)
            for event in self._read()
            if event["step"] <= newest.get(event["kind"], step)
        ]
        write_text_atomically(self._file, "".join(line + "\n" for line in kept))
        moments: tuple[Moment, ...] = ("first", "best")
        for moment in moments:
            found = self.translations(moment)
            if found is not None and found.step > validated_step:
                (self._translations / f"{moment}.json").unlink()

    def _read(self) -> Iterator[Event]:
        if not self._file.exists():
            return
        with self._file.open(encoding="utf-8", errors="replace") as opened:
            for number, line in enumerate(opened, start=1):
                if line.endswith("\n"):  # a kill may have cut the last line short
                    yield _event(line, f"{self._file}:{number}")


def _event(line: str, place: str) -> Event:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or not {"kind", "step"} <= event.keys():
        raise TrainingError(f"{place}: not an event of a run, delete the line")
    return event


def _translated_text(values: Mapping[str, Any]) -> TranslatedText:
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
    return TranslatedText(**fields)


def _tensorboard_writer(folder: str) -> "SummaryWriter":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("run.tensorboard", "false unless dragoman[train] is installed", True) from error
    return SummaryWriter(folder)


class Progress:
    """Shows step, epoch, loss, learning rate, tokens per second and the time left.

    On a terminal that is a bar, otherwise a line of the log.

    Args:
        limits: When the run ends.
    """

    def __init__(self, limits: RunConfig) -> None:
        self._limits = limits
        self._share_at_start: float | None = None
        self._started = 0.0
        hidden = sys.stderr is None or not sys.stderr.isatty()
        self._bar = tqdm(total=limits.max_steps or None, unit=" steps", disable=hidden)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Keep lines of the log from breaking the bar, which the exit ends."""
        with logging_redirect_tqdm(), self._bar:
            yield

    def show(self, step: int, minutes: float, epoch: float, values: Mapping[str, float]) -> None:
        """Show the latest figures; `values` as the log has them."""
        share = completed_share(self._limits, step, minutes, epoch)
        if self._share_at_start is None:
            self._share_at_start, self._started = share, time.monotonic()
            self._bar.n = self._bar.initial = step  # the bar's speed ignores steps before a resumption
        left = time_left(self._share_at_start, share, time.monotonic() - self._started)
        figures = (
            f"loss {values['loss']:.3f}, rate {values['learning_rate']:.2e}, "
            f"{values['tokens_per_second']:,.0f} tokens/s, {left} left"
        )
        if self._bar.disable:
            logger.info("step %d, epoch %.2f: %s", step, epoch, figures)
        else:
            self._bar.update(step - self._bar.n)
            self._bar.set_postfix_str(f"epoch {epoch:.2f}, {figures}")


def completed_share(limits: RunConfig, step: int, minutes: float, epoch: float) -> float:
    """Fraction of the run that is done, from 0 to 1, by the limit that is reached first."""
    limited = ((step, limits.max_steps), (minutes, limits.max_minutes), (epoch, limits.max_epochs))
    return min(max((done / limit for done, limit in limited if limit), default=0.0), 1.0)


def time_left(share_at_start: float, share: float, seconds: float) -> str:
    """Remaining time as h:mm:ss, extrapolated from the growth of the share; `?` if it has not grown."""
    if share <= share_at_start:
        return "?"
    left = int(seconds * (1 - share) / (share - share_at_start))
    return f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
