"""Who takes part in a race: our precisions, and the peers that are installed."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.engine import DragomanEngine, Engine
from benchmarks.machine import installed_version
from model.errors import ConfigError
from model.transformer import Transformer

Builder = Callable[[Transformer, int], Engine]


def _hugging_face(network: Transformer, precision: str) -> Engine:
    from benchmarks.peers.hugging_face import HuggingFaceEngine

    return HuggingFaceEngine(network, precision)


def _ctranslate2(network: Transformer, precision: str, threads: int) -> Engine:
    from benchmarks.peers.ctranslate2 import CTranslate2Engine

    return CTranslate2Engine(network, precision, threads)


ENGINES: Mapping[str, Builder] = {
    "dragoman-float32": lambda network, _: DragomanEngine.of(network, "float32"),
    "dragoman-bfloat16": lambda network, _: DragomanEngine.of(network, "bfloat16"),
    "dragoman-int8": lambda network, _: DragomanEngine.of(network, "int8"),
    "hugging-face-float32": lambda network, _: _hugging_face(network, "float32"),
    "hugging-face-bfloat16": lambda network, _: _hugging_face(network, "bfloat16"),
    "ctranslate2-float32": lambda network, threads: _ctranslate2(network, "float32", threads),
    "ctranslate2-int8": lambda network, threads: _ctranslate2(network, "int8", threads),
}
"""How to build each engine from a float32 network and a number of threads."""

DEFAULT_ENGINES = (
    "dragoman-float32",
    "dragoman-int8",
    "hugging-face-float32",
    "ctranslate2-float32",
    "ctranslate2-int8",
)
_NEEDED_PACKAGES = {"hugging-face": ("transformers",), "ctranslate2": ("transformers", "ctranslate2")}


def line_up(network: Transformer, names: Sequence[str], threads: int) -> list[Engine]:
    """The engines of these names, ours first.

    Args:
        network: In float32; each engine gets a copy.
        names: Keys of ENGINES, at least one of them ours.
        threads: Numeric threads of each.

    Raises:
        ConfigError: If none is ours; there would be nothing to compare with.
    """
    ordered = [name for name in ENGINES if name in names]
    if not ordered or not ordered[0].startswith("dragoman"):
        raise ConfigError("engine", "given with a dragoman one among them", ", ".join(names))
    return [ENGINES[name](network, threads) for name in ordered]


def absent(names: Sequence[str]) -> list[str]:
    """Those of some engines whose packages are not installed."""
    return [
        name
        for name in names
        for peer, packages in _NEEDED_PACKAGES.items()
        if name.startswith(peer) and not all(map(installed_version, packages))
    ]
