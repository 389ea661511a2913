"""Set-up by make, with a stand-in for Python that only notes what it was asked to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Answers the version check, makes a virtual environment of itself, notes every installation, build and run of
# the tests; `exits.txt` holds the exit status of that run.
STAND_IN = """#!/bin/sh
case "$*" in
  *"-m venv .venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/dragoman ;;
  *"pip install"*) echo "$*" >> installed.txt ;;
  *"-m pytest"*) echo "$*" >> tested.txt; exit "$(cat exits.txt)" ;;
  *model.native.build*) echo "$*" >> built.txt; exit "${STAND_IN_CANNOT_BUILD:-0}" ;;
  *--version*) echo "Python 3.11.0" ;;
  serve) echo "serving" ;;
  -c*) exit "${STAND_IN_TOO_OLD:-0}" ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the files that set-up reads."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "stand-in-python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    (tmp_path / "exits.txt").write_text("0\n")
    return tmp_path


def make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Flags of an outer make, such as the one that runs this suite, are not this one's.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", f"PYTHON={clone}/stand-in-python", *arguments]
    return subprocess.run(
        command,
        cwd=clone,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def installations(clone: Path) -> list[str]:
    return (clone / "installed.txt").read_text().splitlines()


def test_serve_installs_once_with_the_pinned_versions_and_then_starts(clone: Path) -> None:
    first, second = make(clone, "serve"), make(clone, "serve")
    assert first.stdout.endswith("serving\n"), first.stderr
    assert second.stdout == "serving\n"
    assert len(installations(clone)) == 1
    assert "--constraint constraints.txt" in installations(clone)[0]


def test_the_native_library_is_looked_after_at_every_start(clone: Path) -> None:
    make(clone, "serve")
    make(clone, "test")
    assert (clone / "built.txt").read_text().splitlines() == ["-m model.native.build"] * 2


@pytest.mark.parametrize("status", ["0", "2"])
def test_tests_run_once_and_their_result_is_makes(clone: Path, status: str) -> None:
    (clone / "exits.txt").write_text(status)
    outcome = make(clone, "test", PYTEST_ARGS="tests/model")
    (run,) = (clone / "tested.txt").read_text().splitlines()
    assert (outcome.returncode == 0) == (status == "0"), outcome.stderr
    assert run.endswith("tests/model")


def test_explore_prints_the_seed_that_draws_the_examples_again(clone: Path) -> None:
    first = make(clone, "explore").stdout.splitlines()[-1]
    assert make(clone, *first.split()[1:]).stdout.splitlines()[-1] == first
    runs = (clone / "tested.txt").read_text().splitlines()
    seed = first.removeprefix("make explore SEED=")
    assert [f"--hypothesis-seed {seed}" in run and "-m hypothesis" in run for run in runs] == [True, True]


def test_without_a_compiler_the_service_starts_all_the_same(clone: Path) -> None:
    outcome = make(clone, "serve", STAND_IN_CANNOT_BUILD="1")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.endswith("serving\n")


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed_at_the_next_run(clone: Path, changed: str) -> None:
    make(clone, "serve")
    later = (clone / ".venv/.ready-serve").stat().st_mtime + 10
    os.utime(clone / changed, (later, later))
    make(clone, "serve")
    assert len(installations(clone)) == 2


def test_a_failed_installation_is_tried_again(clone: Path) -> None:
    make(clone, "serve")
    (clone / ".venv/.ready-serve").unlink()
    (clone / ".venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    assert make(clone, "serve").returncode != 0
    assert not (clone / ".venv/.ready-serve").exists()


def test_without_a_recent_python_one_line_says_what_to_do(clone: Path) -> None:
    outcome = make(clone, "serve", STAND_IN_TOO_OLD="1")
    assert outcome.returncode != 0
    assert "No Python 3.11 or newer" in outcome.stderr
    assert "make PYTHON=" in outcome.stderr
    assert not (clone / ".venv").exists()


def test_make_alone_lists_every_command(clone: Path) -> None:
    makefile = (clone / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:"))
    listed = {line.split()[1] for line in make(clone).stdout.splitlines()}
    assert listed == set(phony.removeprefix(".PHONY:").split())
