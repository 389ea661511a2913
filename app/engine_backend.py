"""⑤ The real backend: checkpoints, each with its engine. Only the lifespan imports it, and torch with it."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from app.backend import Engine, LoadedModel
from app.checkpoints import checkpoint_folders
from model.accelerator import accelerator_memory
from model.errors import CheckpointError
from model.translator import Translator


class EngineBackend:
    """Several checkpoints in this process, one engine each.

    Args:
        translators: What was loaded, and how many seconds that took.
    """

    def __init__(self, translators: Sequence[tuple[Translator, float]]) -> None:
        self.workers = 1
        self._engines = {(translator.card.name, 0): translator.engine for translator, _ in translators}
        self._models = tuple(_describe(translator, seconds) for translator, seconds in translators)

    @classmethod
    def load(cls, folders: Iterable[Path], *, device: str, precision: str) -> "EngineBackend":
        """Load checkpoints, the preferred one of a language pair first.

        Raises:
            CheckpointError: If a folder is not a whole, sound checkpoint, or two have one name.
            ConfigError: If a path holds no checkpoint, or this machine has no such device or precision.
        """
        translators = [_load(folder, device, precision) for folder in checkpoint_folders(folders)]
        names = [translator.card.name for translator, _ in translators]
        if len(set(names)) < len(names):
            raise CheckpointError(f"checkpoints must have different names: {', '.join(sorted(names))}")
        return cls(translators)

    def models(self) -> Sequence[LoadedModel]:
        """The loaded checkpoints, the preferred one of a language pair first."""
        return self._models

    def engine(self, model: str, worker: int) -> Engine:
        """A worker's engine of a checkpoint."""
        return self._engines[model, worker]

    def memory(self) -> Mapping[str, int]:
        """Bytes of accelerator memory by kind; empty on a CPU."""
        return accelerator_memory()

    def close(self) -> None:
        """Give back what the engines hold."""
        for engine in self._engines.values():
            engine.close()


def _load(folder: Path, device: str, precision: str) -> tuple[Translator, float]:
    began = time.monotonic()
    translator = Translator.load(folder, device=device, precision=precision)
    return translator, time.monotonic() - began


def _describe(translator: Translator, seconds: float) -> LoadedModel:
    return LoadedModel(
        card=translator.card,
        tokenizer=translator.tokenizer,
        checksum=translator.checksum,
        device=str(translator.device),
        precision=translator.precision,
        parameters=translator.num_parameters,
        load_seconds=seconds,
    )
