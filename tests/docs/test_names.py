"""Every path, module, make target, command and option that the documents name exists."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from model.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("checkpoints/**/*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
_FOLDERS = "app|model|tests|docs|deploy|examples|benchmarks|checkpoints/recipe|checkpoints/everyday"
_PATH = re.compile(rf"(?<![\w./<-])(?:{_FOLDERS})/[\w./-]*[\w/]")
_MODULE = re.compile(r"python -m ((?:app|model|tests|benchmarks)(?:\.[a-z_]+)+)\b")
_TARGET = re.compile(r"(?:^|\s)make ([a-z][a-z-]*)")
_COMMAND = re.compile(r"(?:^|[|;&=]\s*|\s\.venv/bin/|^\.venv/bin/)dragoman ([a-z]+\b.*)")
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")


def text_of(page: Path) -> str:
    """A page without the targets of its links, which `test_links` follows."""
    return re.sub(r"\]\([^)\s]*\)", "]", page.read_text("utf-8"))


def code_of(page: Path) -> Iterator[str]:
    """Lines of code, those that a backslash continues as one; then the spans of code in the text."""
    text = text_of(page)
    for block in _FENCED.findall(text):
        yield from block.replace("\\\n", " ").splitlines()
    yield from (span.replace("\n", " ") for span in _SPAN.findall(_FENCED.sub("", text)))


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of each `dragoman` command, from the command's name on."""
    for line in code_of(page):
        if (found := _COMMAND.search(line)) and not line.startswith("docker"):
            yield shlex.split(found[1].partition(" #")[0])


def options_of(command: click.Command) -> set[str]:
    """Every spelling of a command's options."""
    return {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}


def is_runnable(module: str) -> bool:
    """Whether `python -m` finds it."""
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def lacking(missing: Callable[[Path], Iterable[str]]) -> list[str]:
    """What pages name and is missing, with the page."""
    return sorted(f"{page.relative_to(ROOT)}: {name}" for page in PAGES for name in set(missing(page)))


def test_paths_exist() -> None:
    assert lacking(lambda page: (p for p in _PATH.findall(text_of(page)) if not (ROOT / p).exists())) == []


def test_modules_can_be_run() -> None:
    def missing(page: Path) -> list[str]:
        named = [module for line in code_of(page) for module in _MODULE.findall(line)]
        return [module for module in named if not is_runnable(module)]

    assert lacking(missing) == []


def test_make_has_the_targets() -> None:
    assert lacking(lambda page: {t for line in code_of(page) for t in _TARGET.findall(line)} - TARGETS) == []


def test_commands_exist_and_have_the_options() -> None:
    def missing(page: Path) -> Iterator[str]:
        for name, *words in commands_of(page):
            command = main.get_command(click.Context(main), name)
            given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            unknown = given - options_of(command) if command else {""}
            yield from (f"{name} {option}" for option in unknown)

    assert lacking(missing) == []
