"""Where each contestant finds its weights: our checkpoint, or a folder that `dragoman export` writes."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.lineup import Contestant
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.formats.export import export_checkpoint
from model.checkpoint.formats.hugging_face import suitable_architecture
from model.errors import ConfigError


class Stable:
    """One checkpoint in every form that contestants ask for; each is written once.

    Args:
        folder: Of the checkpoint.
        exports: Where to write the other forms.
    """

    def __init__(self, folder: Path, exports: Path) -> None:
        self._folder, self._exports = folder, exports
        self._checkpoint: Checkpoint = load_checkpoint(folder)
        self._refusals: dict[str, str] = {}

    def folder_of(self, contestant: Contestant) -> Path | None:
        """What it is to load; None if its format cannot hold this network."""
        if contestant.framework is None:
            return self._folder
        export_format = self._format_of(contestant)
        folder = self._exports / f"{export_format}-{contestant.quantization}"
        if not folder.exists():
            try:
                export_checkpoint(self._checkpoint, folder, export_format, contestant.quantization)
            except ConfigError as error:
                self._refusals[contestant.name] = str(error)
                return None
        return folder

    def left_out(self, field: Sequence[Contestant]) -> list[str]:
        """A line for each contestant that cannot hold this network."""
        for each in field:
            self.folder_of(each)
        return [f"Left out: {name} ({reason})." for name, reason in self._refusals.items()]

    def _format_of(self, contestant: Contestant) -> str:
        if contestant.framework == "hugging-face":
            return suitable_architecture(self._checkpoint.config)
        return str(contestant.framework)
