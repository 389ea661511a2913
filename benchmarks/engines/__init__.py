"""Engines that turn token ids into token ids: ours and others', each in a process of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import click

from benchmarks.harness.report import installed_version
from model.decode_request import DecodeOptions
from model.errors import NativeError

Ids = Sequence[int]
Translations = list[tuple[int, ...]]
OURS = "dragoman"
EXACT = "float32"
"""The precision in which every engine must give the same translations."""


class Engine(Protocol):
    """A loaded engine that knows how many threads it may keep busy."""

    def decode(self, sources: Sequence[Ids], options: DecodeOptions, batch_size: int) -> Translations:
        """The best translation of each source, without EOS, in the order of the sources.

        Args:
            sources: Token ids, EOS included; the longest first, where lengths differ.
            options: Strategy greedy or beam, `beam_size`, `length_penalty`, `max_length`.
            batch_size: Sentences that a thread decodes at a time.
        """


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """One engine in one precision; nothing is imported until it is loaded."""

    engine: str  # name without the precision
    precision: str  # what it computes in, in our words
    devices: Sequence[str]  # where it runs

    @property
    def name(self) -> str:
        """The name by which `--engine` chooses it."""
        return f"{self.engine}-{self.precision}"

    @property
    def is_ours(self) -> bool:
        """Whether it is one of Dragoman's."""
        return self.engine.startswith(OURS)

    def is_present(self, device: str) -> bool:
        """Whether this machine has what the engine needs on a device."""
        if device not in self.devices:
            return False
        match self.engine:
            case "dragoman-native":
                return _native_is_built()
            case "hugging-face":
                return installed_version("transformers") is not None
            case "ctranslate2":
                return _ctranslate2_runs_on(device)
        return True

    def load(self, folder: Path, threads: int, device: str) -> Engine:
        """Make the engine from its weights."""
        from benchmarks.engines import loaded

        makers: dict[str, Callable[[Path, str, int, str], Engine]] = {
            "dragoman-native": loaded.dragoman,
            "dragoman-graphs": loaded.dragoman,
            "dragoman-torch": loaded.torch_reference,
            "hugging-face": loaded.HuggingFaceEngine,
            "ctranslate2": loaded.CTranslate2Engine,
        }
        return makers[self.engine](folder, self.precision, threads, device)


def _native_is_built() -> bool:
    from model.native.binding import load_library

    try:
        load_library()
    except NativeError:
        return False
    return True


def _ctranslate2_runs_on(device: str) -> bool:
    if installed_version("ctranslate2") is None:
        return False
    import ctranslate2

    return device == "cpu" or ctranslate2.get_cuda_device_count() > 0


_CPU, _CUDA, _BOTH = ("cpu",), ("cuda",), ("cpu", "cuda")
_PRECISIONS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "dragoman-native": {"float32": _CPU, "bfloat16": _CPU, "int8": _CPU},
    "dragoman-graphs": {"float32": _CUDA, "bfloat16": _CUDA},
    "dragoman-torch": {"float32": _BOTH, "bfloat16": _CUDA, "int8": _CPU},
    "hugging-face": {"float32": _BOTH, "bfloat16": _BOTH},
    "ctranslate2": {"float32": _BOTH, "bfloat16": _CUDA, "int8": _BOTH},
}
ENGINES = {
    f"{engine}-{precision}": EngineSpec(engine=engine, precision=precision, devices=devices)
    for engine, found in _PRECISIONS.items()
    for precision, devices in found.items()
}
"""By name; ours first. `native` is the CPU library, `graphs` PyTorch with recorded CUDA steps."""


def choose(names: Sequence[str], device: str) -> list[EngineSpec]:
    """The named engines, or all, that this machine has on a device; ours first.

    Raises:
        click.UsageError: If none of them is ours, to compare the others with.
    """
    chosen = [
        spec for spec in ENGINES.values() if (not names or spec.name in names) and spec.is_present(device)
    ]
    if not chosen or not chosen[0].is_ours:
        named = ", ".join(names)
        raise click.UsageError(f"--engine must name one of {OURS}'s that this machine has, but is {named}")
    return chosen


def absent(names: Sequence[str], device: str) -> list[str]:
    """The named engines, or all of a device, that this machine lacks there."""
    wanted = names or [name for name, spec in ENGINES.items() if device in spec.devices]
    return [name for name in wanted if not ENGINES[name].is_present(device)]


def reference_of(field: Sequence[EngineSpec]) -> EngineSpec:
    """The engine whose translations count as right: our first in float32, else our first."""
    ours = [spec for spec in field if spec.is_ours]
    return next((spec for spec in ours if spec.precision == EXACT), ours[0])


def opponent_of(spec: EngineSpec, field: Sequence[EngineSpec]) -> EngineSpec | None:
    """The engine of ours to compare with: our first in that precision, else the reference; never itself."""
    reference = reference_of(field)
    alike = (each for each in field if each.is_ours and each.precision == spec.precision)
    chosen = next(alike, reference)
    if chosen is not spec:
        return chosen
    return None if spec is reference else reference


def beams(options: DecodeOptions) -> int:
    """Width of the search; 1 is greedy."""
    return options.beam_size if options.strategy == "beam" else 1
