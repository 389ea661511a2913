"""Structures lie in memory as the library has them: sizes and places are what a compiler says."""

import ctypes
import subprocess

import pytest

from model.native import operators, structures
from model.native.build import SOURCES
from tests.model.native_library import needs_compiler

PAIRS: list[tuple[type[ctypes.Structure], str]] = [
    (structures.NativeConfig, "NetworkConfig"),
    (structures.TensorRows, "Tensor"),
    (structures.SessionConfig, "SessionConfig"),
    (structures.OptionsStruct, "Options"),
    (structures.RequestStruct, "Request"),
    (structures.StepRecordView, "StepRecord"),
    (structures.HypothesisView, "HypothesisView"),
    (structures.ResultView, "ResultView"),
    (structures.ProgressView, "Progress"),
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
