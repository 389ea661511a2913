import subprocess
from pathlib import Path

import pytest

from model.errors import NativeError
from model.native import binding
from model.native.binding import ENVIRONMENT, Library, load_library, runnable_variants
from model.native.build import VARIANTS
from tests.model.native_library import needs_compiler


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
    with pytest.raises(NativeError, match="auto, off, avx512, avx2, but is 'sse'"):
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
    with pytest.raises(NativeError, match="cannot be loaded"):
        Library(tmp_path / "library.so")


@needs_compiler
def test_a_library_of_another_version_is_refused(tmp_path: Path) -> None:
    program = 'extern "C" int dragoman_abi_version() { return 999; }'
    command = ["c++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(tmp_path / "library.so")]
    subprocess.run(command, input=program, text=True, check=True)
    with pytest.raises(NativeError, match="but has 999"):
        Library(tmp_path / "library.so")
