"""Operators without memory or threads: they say so, or do without."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from model.native.build import VARIANTS
from model.native.operators import (
    AttentionGradients,
    LossRows,
    NormedRows,
    NormGradients,
    Operators,
    Projection,
    SentenceAttention,
)
from tests.model.native_library import native_library, needs_native

ROOT = Path(__file__).parents[3]
MANY = 2**46  # of whatever: more numbers than a process has addresses for

ATTENTION = SentenceAttention(sentences=1, num_queries=MANY, num_keys=1, heads=1, width=16, threads=1)
NORM = NormedRows(rows=1, width=MANY, threads=1)
CALLS = {
    "smoothed_loss": lambda operators: operators.smoothed_loss(
        LossRows(rows=2**54, vocabulary=3, threads=1), (ctypes.c_double * 2)()
    ),
    "norm_rows_gradient": lambda operators: operators.norm_rows_gradient(NORM, NormGradients()),
    "attend_sentences": lambda operators: operators.attend_sentences(ATTENTION, 0),
    "attend_sentences_gradient": lambda operators: operators.attend_sentences_gradient(
        ATTENTION, AttentionGradients()
    ),
    "project": lambda operators: operators.project(Projection(inputs=MANY, outputs=16, threads=1), 0, 0),
    "project_gradient": lambda operators: operators.project_gradient(
        Projection(inputs=32, outputs=MANY, threads=1), 0, 0
    ),
    "project_weight_gradient": lambda operators: operators.project_weight_gradient(
        Projection(rows=MANY, inputs=32, outputs=16, threads=1), 0, 0, 0, None
    ),
}


@pytest.fixture(params=sorted(VARIANTS))
def operators(request: pytest.FixtureRequest) -> Operators:
    return Operators(native_library(request.param))


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_without_memory_raises_an_error(operators: Operators, name: str) -> None:
    if name.startswith("project"):
        needs_products(operators)
    with pytest.raises(MemoryError, match="no memory for this in the native library"):
        CALLS[name](operators)


def needs_products(operators: Operators) -> None:
    if not operators.has_bfloat16_products():
        pytest.skip("this library has no bfloat16 products")


WITHOUT_THREADS = """
import ctypes, resource, threading
from pathlib import Path
from model.native.binding import load_library
from model.native.operators import DropoutStruct, DropoutAdd, Operators

operators = Operators(load_library())
operators.lend_threads(None)
update, result = (ctypes.c_float * 160)(*range(160)), (ctypes.c_float * 160)()
dropped = DropoutAdd(
    update=ctypes.addressof(update),
    sum=ctypes.addressof(result),
    size=160,
    dropout=DropoutStruct(0, 0, 1),
    threads=4,
)
pages = int(Path("/proc/self/statm").read_text().split()[0])
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**20, limits[1]))
try:
    threading.Thread(target=print).start()
except RuntimeError as error:
    print(error)
operators.dropout_add(dropped)
assert list(result) == list(range(160))
print("all is well")
"""


@needs_native
def test_where_no_thread_can_start_one_does_it_all() -> None:
    command = [sys.executable, "-c", WITHOUT_THREADS]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "can't start new thread" in ended.stdout
    assert "all is well" in ended.stdout


def test_the_gradients_of_no_rows_are_zero(operators: Operators) -> None:
    needs_products(operators)
    weight, bias = (ctypes.c_float * 512)(*[1] * 512), (ctypes.c_float * 16)(*[1] * 16)
    operators.project_weight_gradient(
        Projection(rows=0, inputs=32, outputs=16, threads=2),
        0,
        0,
        ctypes.addressof(weight),
        ctypes.addressof(bias),
    )
    assert not any(weight)
    assert not any(bias)
