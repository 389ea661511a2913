import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from model.errors import ConfigError, NativeError
from model.native import binding, operators
from model.native.binding import ABI_VERSION, ENVIRONMENT, Library, load_library, runnable_variants
from model.native.build import SOURCES, VARIANTS, checksum_path, library_path, write_checksum
from tests.model.native_library import needs_compiler, needs_native


@needs_native
def test_the_fastest_library_is_taken_unless_the_environment_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert f"-{runnable_variants()[0]}-" in load_library().name
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


NAMED = 'extern "C" int dragoman_{}() {{ return {}; }}'


@needs_compiler
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("int answer() { return 42; }", "dragoman_abi_version"),
        (NAMED.format("abi_version", 999), "but has 999"),
        (
            NAMED.format("abi_version", ABI_VERSION) + NAMED.format("request_instructions", 0),
            r"denies library\.so the use",
        ),
    ],
    ids=["foreign", "of another version", "instructions that the system withholds"],
)
def test_a_library_that_cannot_be_used_is_refused(program: str, message: str, tmp_path: Path) -> None:
    command = ["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(tmp_path / "library.so")]
    subprocess.run(command, input=program, text=True, check=True, timeout=300)
    write_checksum(tmp_path / "library.so")
    with pytest.raises(NativeError, match=message):
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


@needs_compiler
def test_every_field_is_where_the_library_has_it() -> None:
    claims = []
    for structure, name in PAIRS:
        claims.append(f"sizeof(dragoman::{name}) == {ctypes.sizeof(structure)}")
        for field, *_ in structure._fields_:
            offset = getattr(structure, field).offset
            claims.append(f"offsetof(dragoman::{name}, {field}) == {offset}")
    headers = ["<cstddef>", '"decoding/session.h"', '"training/operators.h"']
    lines = [f"#include {header}" for header in headers] + [f"static_assert({claim});" for claim in claims]
    command = ["c++", "-std=c++17", "-march=x86-64-v3", "-Wno-psabi", f"-I{SOURCES}", "-fsyntax-only"]
    outcome = subprocess.run(
        [*command, "-x", "c++", "-"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert outcome.returncode == 0, outcome.stderr
