"""Who takes part in a race, and what each is loaded from. No torch until a folder is exported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import OURS, Engine, Loader, native_dragoman, native_is_built, torch_dragoman
from benchmarks.machine import installed_version
from model.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One engine in one precision.

    Attributes:
        engine: Whose.
        precision: What it computes in, in our words.
        load: Makes it from a folder, a precision and a number of threads.
        is_present: Whether this machine has what it needs.
        framework: Whose format the folder has: `ctranslate2`, `hugging-face`; None is our own.
        quantization: What the exported folder stores numbers in.
    """

    engine: str
    precision: str
    load: Loader
    is_present: Callable[[], bool] = lambda: True
    framework: str | None = None
    quantization: str = "float32"

    @property
    def name(self) -> str:
        """As users of the benchmark name it."""
        return f"{self.engine}-{self.precision}"

    @property
    def is_ours(self) -> bool:
        """Whether it is one of Dragoman's."""
        return self.engine.startswith(OURS)


def _hugging_face(folder: Path, precision: str, threads: int) -> Engine:
    from benchmarks.peers.hugging_face import HuggingFaceEngine

    return HuggingFaceEngine.load(folder, precision, threads)


def _ctranslate2(folder: Path, precision: str, threads: int) -> Engine:
    from benchmarks.peers.ctranslate2 import CTranslate2Engine

    return CTranslate2Engine(folder, precision, threads)


def _of_ctranslate2(precision: str) -> Contestant:
    return Contestant(
        engine="ctranslate2",
        precision=precision,
        load=_ctranslate2,
        is_present=lambda: installed_version("ctranslate2") is not None,
        framework="ctranslate2",
        quantization=precision,
    )


def _of_hugging_face(precision: str) -> Contestant:
    return Contestant(
        engine="hugging-face",
        precision=precision,
        load=_hugging_face,
        is_present=lambda: installed_version("transformers") is not None,
        framework="hugging-face",
        quantization=precision,
    )


def _ours(precision: str, *, is_native: bool) -> Contestant:
    return Contestant(
        engine=f"{OURS}-{'native' if is_native else 'torch'}",
        precision=precision,
        load=native_dragoman if is_native else torch_dragoman,
        is_present=native_is_built if is_native else lambda: True,
    )


_EVERYBODY = (
    *(_ours(precision, is_native=True) for precision in ("float32", "bfloat16", "int8")),
    *(_ours(precision, is_native=False) for precision in ("float32", "int8")),
    _of_hugging_face("float32"),
    _of_hugging_face("bfloat16"),
    _of_ctranslate2("float32"),
    _of_ctranslate2("int8"),
)
CONTESTANTS: Mapping[str, Contestant] = {each.name: each for each in _EVERYBODY}
"""By name; ours first."""


def line_up(names: Sequence[str]) -> list[Contestant]:
    """Those of these names that this machine has, ours first.

    Raises:
        ConfigError: If none is ours; there would be nothing to compare with.
    """
    chosen = [each for name, each in CONTESTANTS.items() if name in names and each.is_present()]
    if not chosen or not chosen[0].is_ours:
        raise ConfigError("engine", f"given with one of {OURS}'s that this machine has", ", ".join(names))
    return chosen


def absent(names: Sequence[str]) -> list[str]:
    """Those of some contestants that this machine lacks: a package, or the native library."""
    return [name for name in names if not CONTESTANTS[name].is_present()]
