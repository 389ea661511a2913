"""Commands are found, cost nothing until they run, and fail in one line."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from model.cli import main
from tests.model.cli.conftest import Run


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_every_command_explains_itself(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"dragoman {command}" in result.output or f"main {command}" in result.output
    assert "\\b" not in result.output


def test_summaries_are_whole_sentences(run: Run) -> None:
    listed = run("--help").output.partition("Commands:\n")[2]
    assert "..." not in listed
    assert "inspect    Verify CHECKPOINT and show what it holds\n" in listed
    words = "report     Write RUN_FOLDER/report/index.html: scores, curves, sentences, attention"
    assert " ".join(words.split()) in " ".join(listed.split())


def test_the_service_s_command_comes_by_entry_point() -> None:
    assert "serve" in metadata.entry_points(group="dragoman.commands").names
    command = main.get_command(click.Context(main), "serve")
    assert isinstance(command, click.Command)
    assert main.get_command(click.Context(main), "novel") is None


HELP_AND_PACKAGE = """
import runpy, sys
from model.cli import main
try: main(["--help"])
except SystemExit: print("loaded", {"torch", "sentencepiece", "lingua", "sacrebleu"} & set(sys.modules))
sys.argv[1:] = ["--version"]
runpy.run_module("dragoman", run_name="__main__")
"""


def test_help_loads_no_heavy_library_and_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-c", HELP_AND_PACKAGE]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    version = f"dragoman {metadata.version('dragoman')}"
    assert ended.stdout.splitlines()[-2:] == ["loaded set()", version]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--novel"], "No such option '--novel'."),
        (["novel"], "No such command 'novel'."),
        (["tranlate"], "No such command 'tranlate'. Did you mean 'translate'? (see"),
        (["Serve"], "No such command 'Serve'. Did you mean 'serve'? (see"),
        (["translate", "--novel"], "No such option '--novel'."),
        (["translate", "nowhere.txt"], "Invalid value for '[FILE]': 'nowhere.txt': No such file"),
        (["translate", "--beam-size", "x"], "Invalid value for '--beam-size': 'x' is not a valid integer"),
        (["translate", "--beam-size", "0"], "`beam_size` must be an integer between 1 and 64, but is 0"),
        (["translate", "--max-length", "65"], "`max_length` must be at most 64"),
        (["translate", "--device", "tpu"], "`device` must be one of auto, cpu, cuda, cuda:N, but is 'tpu'"),
        (["translate", "--precision", "int4"], "`precision` must be one of auto, float32"),
        (["translate", "--source", "de"], "`source` must be one of en, fr, but is 'de'"),
        (["evaluate"], "give --corpus, or --source-file"),
        (["inspect"], "Missing argument 'CHECKPOINT'."),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run: Run, arguments: list[str], line: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"dragoman: {line}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["translate", "--checkpoint", "nowhere"], "checkpoint nowhere does not exist"),
        (["inspect", "nowhere"], "checkpoint nowhere does not exist"),
        (["import", "nowhere", "-o", "output"], "nowhere does not exist"),
        (["evaluate", "--source-file", "nowhere"], "nowhere: no such file"),
    ],
)
def test_a_failure_is_one_line_and_status_1(run: Run, arguments: list[str], line: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (1, f"dragoman: {line}\n")


def test_an_unforeseen_error_is_one_line_too(
    run: Run, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("over\nnothing")

    monkeypatch.setattr("model.checkpoint.folder.load_checkpoint", fail)
    result = run("inspect", tiny_checkpoint)
    assert (result.exit_code, result.stderr) == (1, "dragoman: unexpected ZeroDivisionError: over nothing\n")
    monkeypatch.setenv("DRAGOMAN_TRACEBACK", "1")
    assert isinstance(run("inspect", tiny_checkpoint).exception, ZeroDivisionError)


@pytest.mark.parametrize("reason", [KeyboardInterrupt, click.Abort])
def test_an_interruption_is_one_line_too(
    run: Run, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, reason: type[BaseException]
) -> None:
    def stop(_: object) -> None:
        raise reason

    monkeypatch.setattr("model.checkpoint.folder.load_checkpoint", stop)
    result = run("inspect", tiny_checkpoint)
    assert (result.exit_code, result.output) == (1, "dragoman: interrupted\n")


def test_an_interruption_while_modules_are_imported_is_one_line_too() -> None:
    code = (
        "import builtins, sys; imported = builtins.__import__\n"
        "def stop(name, *others):\n"
        "    if name == 'click': raise KeyboardInterrupt\n"
        "    return imported(name, *others)\n"
        "builtins.__import__ = stop; import model.cli"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "dragoman: interrupted\n")


def test_no_command_shows_the_help(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


def test_the_version_is_the_distribution_s(run: Run) -> None:
    assert run("--version").output == f"dragoman {metadata.version('dragoman')}\n"
