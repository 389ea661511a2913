import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import NativeError
from model.native import build as builder
from model.native.build import VARIANTS, build, check_warnings, checksum_path, is_intact, library_path, main
from tests.model.native_library import needs_compiler

# Stands in for a compiler: notes its arguments, reads the program and writes what it was asked to.
COMPILER = """#!/bin/sh
cat > /dev/null
echo "$*" >> {log}
case "$*" in *"$REFUSED"*) echo "unrecognised option '$REFUSED'" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done
echo compiled > "$2"
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "answer.h").write_text('extern "C" int answer();\n')
    (folder / "answer.cpp").write_text('#include "answer.h"\nint answer() { return 42; }\n')
    return folder


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    return tmp_path / "lib"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that does nothing in no time, and the file with what it was asked."""
    log, compiler = tmp_path / "calls.txt", tmp_path / "my compiler"
    compiler.write_text(COMPILER.format(log=shlex.quote(str(log))))
    compiler.chmod(0o755)
    monkeypatch.setenv("REFUSED", "nothing yet")
    monkeypatch.setenv("CXX", f"{shlex.quote(str(compiler))} --mine")
    return log


@pytest.fixture(autouse=True)
def fresh_hashes() -> None:
    builder._hash.cache_clear()


@needs_compiler
def test_the_same_sources_make_a_library_for_each_instruction_set(sources: Path, libraries: Path) -> None:
    built = build(sources, libraries)
    assert built == [library_path(variant, sources, libraries) for variant in VARIANTS]
    assert all(path.read_bytes().startswith(b"\x7fELF") for path in built)
    assert all(map(is_intact, built))
    assert sorted(libraries.glob("*.so")) == sorted(built)


def test_the_compiler_that_cxx_names_is_called_once_for_each_library(
    sources: Path, libraries: Path, calls: Path
) -> None:
    assert len(build(sources, libraries)) == len(VARIANTS)
    assert build(sources, libraries) == []
    for call, flags in zip(sorted(calls.read_text().splitlines()), sorted(VARIANTS.values()), strict=True):
        assert call.startswith("--mine ")
        assert all(flag in call.split() for flag in flags)


def test_changed_sources_are_compiled_and_old_libraries_removed(
    sources: Path, libraries: Path, calls: Path
) -> None:
    before = build(sources, libraries)
    (sources / "answer.h").write_text("// changed\n")
    builder._hash.cache_clear()
    after = build(sources, libraries)
    assert not set(before) & set(after)
    assert sorted(libraries.iterdir()) == sorted([*after, *map(checksum_path, after)])


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"half"), lambda path: checksum_path(path).unlink()]
)
def test_a_damaged_library_is_compiled_again(
    sources: Path, libraries: Path, calls: Path, damage: Callable[[Path], object]
) -> None:
    first, *others = build(sources, libraries)
    damage(first)
    assert build(sources, libraries) == [first]
    assert all(map(is_intact, (first, *others)))


def test_a_reader_of_a_checksum_that_is_replaced_reads_the_old_one(
    sources: Path, libraries: Path, calls: Path
) -> None:
    first, *_ = build(sources, libraries)
    first.write_bytes(b"half")
    with checksum_path(first).open() as checksum:
        assert build(sources, libraries) == [first]
        assert os.fstat(checksum.fileno()).st_nlink == 0


def test_the_other_libraries_are_built_if_the_compiler_lacks_an_instruction_set(
    sources: Path,
    libraries: Path,
    calls: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("REFUSED", "-mamx-bf16")
    assert build(sources, libraries) == [
        library_path(variant, sources, libraries) for variant in ("avx512", "avx2")
    ]
    (record,) = caplog.records
    assert "cannot compile the library for amx: unrecognised option '-mamx-bf16'" in record.getMessage()
    assert build(sources, libraries) == []


@needs_compiler
def test_warnings_are_errors_of_the_check_only(sources: Path, libraries: Path) -> None:
    (sources / "answer.cpp").write_text("int answer() { int unused = 1; return 42; }\n")
    with pytest.raises(NativeError, match="unused"):
        check_warnings(sources)
    assert len(build(sources, libraries)) == len(VARIANTS)


@needs_compiler
def test_a_failure_shows_the_compilers_output_and_leaves_no_file(sources: Path, libraries: Path) -> None:
    (sources / "answer.cpp").write_text("int answer() { return forty_two; }\n")
    with pytest.raises(NativeError, match="forty_two"):
        build(sources, libraries)
    assert list(libraries.iterdir()) == []


def test_without_a_compiler_the_error_names_the_commands_tried(
    sources: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", str(libraries))
    with pytest.raises(NativeError, match=r"c\+\+, g\+\+, clang\+\+"):
        build(sources, libraries)


def test_the_command_says_in_one_line_that_pytorch_will_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> list[Path]:
        raise NativeError("no C++ compiler was found")

    monkeypatch.setattr(builder, "build", refuse)
    assert main() == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "PyTorch" in line
    assert "no C++ compiler" in line


@pytest.mark.parametrize(("system", "machine"), [("Linux", "aarch64"), ("Darwin", "x86_64")])
def test_on_other_processors_and_systems_nothing_is_built(
    system: str, machine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builder.platform, "system", lambda: system)
    monkeypatch.setattr(builder.platform, "machine", lambda: machine)
    assert main() == 0
    line = capsys.readouterr().err
    assert line == f"There is no native library for {system} on {machine}: decoding will use PyTorch\n"


def test_compiler_output_that_is_not_utf8_is_shown_with_replacements(
    sources: Path, libraries: Path, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "my compiler").write_text("#!/bin/sh\nprintf 'caf\\351: no' >&2; exit 1\n")
    with pytest.raises(NativeError, match="caf\ufffd: no"):
        build(sources, libraries)
