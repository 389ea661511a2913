import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from model.errors import ConfigError, NativeError
from model.native import binding, operators
from model.native.binding import ABI_VERSION, ENVIRONMENT, Library, load_library, runnable_variants
from model.native.build import SOURCES, VARIANTS, checksum_path, library_path, write_checksum
from tests.model.native_library import needs_compiler


def compile_library(path: Path, program: str) -> None:
    command = ["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=program, text=True, check=True, timeout=300)
    write_checksum(path)


def test_each_instruction_set_has_its_own_library(library: Library) -> None:
    assert any(f"-{variant}-" in library.name for variant in VARIANTS)


def test_the_fastest_one_that_runs_is_taken(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert f"-{runnable_variants()[0]}-" in load_library().name


def test_the_environment_forces_one(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for variant in runnable_variants():
        monkeypatch.setenv(ENVIRONMENT, variant)
        assert f"-{variant}-" in load_library().name


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "off")
    with pytest.raises(NativeError, match="DRAGOMAN_NATIVE is off"):
        load_library()


def test_an_unknown_choice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="auto, off, amx, avx512, avx2, but is 'sse'"):
        load_library("sse")


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("", []),
        ("avx avx2 fma", []),
        ("avx avx2 bmi1 bmi2 f16c fma abm movbe", ["avx2"]),
        ("avx avx2 bmi1 bmi2 f16c fma abm movbe avx512f avx512bw avx512cd avx512dq avx512vl", ["avx2"]),
    ],
)
def test_a_processor_runs_what_it_has_all_instructions_for(
    features: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binding, "_processor_features", lambda: frozenset(features.split()))
    assert runnable_variants() == expected


def test_another_kind_of_processor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    binding._processor_features.cache_clear()
    monkeypatch.setattr(binding.platform, "machine", lambda: "aarch64")
    with pytest.raises(NativeError, match="aarch64"):
        load_library("auto")
    binding._processor_features.cache_clear()


def test_what_is_not_built_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "runnable_variants", lambda: list(VARIANTS))
    monkeypatch.setattr(binding, "library_path", lambda variant: tmp_path / variant)
    with pytest.raises(NativeError, match=r"python -m model\.native\.build"):
        load_library("auto")


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_text("not a library")
    write_checksum(tmp_path / "library.so")
    with pytest.raises(NativeError, match="cannot be loaded"):
        Library(tmp_path / "library.so")


@needs_compiler
def test_a_foreign_library_is_refused(tmp_path: Path) -> None:
    compile_library(tmp_path / "library.so", "int answer() { return 42; }")
    with pytest.raises(NativeError, match="dragoman_abi_version"):
        Library(tmp_path / "library.so")


@pytest.mark.parametrize("size", [0, 1000, 100_000])
def test_a_library_that_was_cut_short_is_refused_before_it_can_do_harm(
    library: Library, tmp_path: Path, size: int
) -> None:
    """Loading it would end the process by SIGBUS or SIGSEGV."""
    whole = library_path(library.name.split("-")[1])
    cut = tmp_path / whole.name
    cut.write_bytes(whole.read_bytes()[:size])
    shutil.copy(checksum_path(whole), tmp_path)
    with pytest.raises(NativeError, match="damaged"):
        Library(cut)


@pytest.mark.skipif(len(runnable_variants()) < 2, reason="this processor runs one library only")
def test_the_next_library_stands_in_for_a_damaged_one(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fastest, second = runnable_variants()[:2]
    paths = {variant: library_path(variant) for variant in runnable_variants()}
    paths[fastest] = tmp_path / "fastest.so"
    paths[fastest].write_bytes(b"\x7fELF")
    monkeypatch.setattr(binding, "library_path", lambda variant: paths[variant])
    assert f"-{second}-" in load_library("auto").name
    (record,) = caplog.records
    assert "fastest.so is damaged" in record.getMessage()
    with pytest.raises(ConfigError, match=r"one that works here \(.* fastest\.so is damaged"):
        load_library(fastest)


@needs_compiler
def test_a_library_whose_instructions_the_system_withholds_is_refused(tmp_path: Path) -> None:
    program = f"""
        extern "C" int dragoman_abi_version() {{ return {ABI_VERSION}; }}
        extern "C" int dragoman_request_instructions() {{ return 0; }}
    """
    compile_library(tmp_path / "library.so", program)
    with pytest.raises(NativeError, match=r"denies library\.so the use"):
        Library(tmp_path / "library.so")


@needs_compiler
def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    program = 'extern "C" int dragoman_abi_version() { return 999; }'
    compile_library(tmp_path / "library.so", program)
    with pytest.raises(NativeError, match="but has 999"):
        Library(tmp_path / "library.so")


PAIRS: list[tuple[type[ctypes.Structure], str]] = [
    (binding.NativeConfig, "NetworkConfig"),
    (binding.TensorRows, "Tensor"),
    (binding.SessionConfig, "SessionConfig"),
    (binding.OptionsStruct, "Options"),
    (binding.RequestStruct, "Request"),
    (binding.StepRecordView, "StepRecord"),
    (binding.HypothesisView, "HypothesisView"),
    (binding.ResultView, "ResultView"),
    (binding.ProgressView, "Progress"),
    (operators.LossRows, "LossRows"),
    (operators.DropoutStruct, "Dropout"),
    (operators.DropoutAdd, "DropoutAdd"),
    (operators.NormedRows, "NormedRows"),
    (operators.NormGradients, "NormGradients"),
    (operators.SentenceAttention, "SentenceAttention"),
    (operators.AttentionGradients, "AttentionGradients"),
    (operators.Projection, "Projection"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Size of each structure and offset of each field, by the compiler."""
    lines = []
    for structure, name in PAIRS:
        lines.append(f'std::printf("{name} %zu\\n", sizeof(dragoman::{name}));')
        for field, *_ in structure._fields_:
            lines.append(f'std::printf("{name}.{field} %zu\\n", offsetof(dragoman::{name}, {field}));')
    headers = ["<cstddef>", "<cstdio>", '"decoding/session.h"', '"training/operators.h"']
    program = "\n".join([*(f"#include {header}" for header in headers), "int main() {", *lines, "}"])
    binary = tmp_path_factory.mktemp("structures") / "places"
    command = ["c++", "-std=c++17", "-march=x86-64-v3", "-Wno-psabi", f"-I{SOURCES}", "-x", "c++", "-", "-o"]
    subprocess.run([*command, str(binary)], input=program, text=True, check=True, timeout=300)
    output = subprocess.run([str(binary)], capture_output=True, text=True, check=True, timeout=300).stdout
    return {name: int(place) for name, place in map(str.split, output.splitlines())}


@needs_compiler
@pytest.mark.parametrize(("structure", "name"), PAIRS)
def test_every_field_is_where_the_library_has_it(
    structure: type[ctypes.Structure], name: str, places: dict[str, int]
) -> None:
    assert ctypes.sizeof(structure) == places[name]
    for field, *_ in structure._fields_:
        assert getattr(structure, field).offset == places[f"{name}.{field}"], field
