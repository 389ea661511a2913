from pathlib import Path

import pytest
import torch

from model.native.binding import ENVIRONMENT
from model.native.operators import Operators, load_operators
from model.network.native_ops import loading
from model.network.native_ops.loading import address_of_threads, installed_operators, operators_for
from model.network.native_ops.residual import dropped


def test_operators_are_for_float32_and_bfloat16_on_a_cpu(operators: Operators) -> None:
    assert operators_for(torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16)) is operators
    assert operators_for(torch.zeros(1), torch.zeros(1, dtype=torch.float16)) is None
    assert operators_for(torch.zeros(1, device="meta")) is None


def test_a_network_that_is_compiled_has_none(operators: Operators, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert operators_for(torch.zeros(1)) is None


def test_without_the_native_library_there_are_none_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "off")
    load_operators.cache_clear()
    installed_operators.cache_clear()
    with caplog.at_level("INFO"):
        assert operators_for(torch.zeros(1)) is None
        assert operators_for(torch.zeros(1)) is None
    (record,) = caplog.records
    assert record.getMessage() == "training with PyTorch alone, not natively: DRAGOMAN_NATIVE is off"
    load_operators.cache_clear()
    installed_operators.cache_clear()


def test_the_openmp_that_pytorch_brings_along_lends_its_threads() -> None:
    brought = list((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    assert (address_of_threads() is not None) or not brought


def test_who_lends_the_threads_changes_nothing(operators: Operators) -> None:
    found, before = [], torch.get_num_threads()
    torch.set_num_threads(3)
    for lender in (loading.address_of_threads(), None):
        operators.lend_threads(lender)
        torch.manual_seed(0)
        found.append(dropped(torch.ones(100, 64), 0.5))
    torch.set_num_threads(before)
    first, second = found
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)


def test_a_broken_openmp_lends_no_threads_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "lib" / "libgomp-broken.so.1").write_text("no library")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert address_of_threads() is None
    (record,) = caplog.records
    assert record.getMessage().startswith("training natively without the threads of libgomp-broken.so.1: ")
