"""ⓔ The run's log: one JSON line per event in `log.jsonl`, and TensorBoard events if configured."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.errors import ConfigError
from model.files import write_text_atomically

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Event = Mapping[str, Any]


class RunLog:
    """Appends events to the log, and reads them; each has a `kind` and a `step`.

    Args:
        file: The log.
        scalars: Receives every number of every event as well.
    """

    def __init__(self, file: Path, scalars: "SummaryWriter | None" = None) -> None:
        self._file = file
        self._scalars = scalars

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
        """The events so far, all or of one kind, in order."""
        return [event for event in self._read() if kind in (None, event["kind"])]

    def rewind(self, step: int, validated_step: int) -> None:
        """Remove updates after `step` and validations after `validated_step`, which will be repeated."""
        newest = {"validation": validated_step}
        kept = [
            json.dumps(event, ensure_ascii=False)
            for event in self._read()
            if event["step"] <= newest.get(event["kind"], step)
        ]
        write_text_atomically(self._file, "".join(line + "\n" for line in kept))

    def _read(self) -> Iterator[Event]:
        if not self._file.exists():
            return
        with self._file.open(encoding="utf-8") as opened:
            for line in opened:
                if line.endswith("\n"):  # a kill may have cut the last line short
                    yield json.loads(line)


def tensorboard_writer(folder: Path) -> "SummaryWriter":
    """A TensorBoard writer.

    Raises:
        ConfigError: If the extra is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("run.tensorboard", "false unless dragoman[train] is installed", True) from error
    return SummaryWriter(str(folder))
