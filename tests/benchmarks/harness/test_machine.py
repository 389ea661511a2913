import os
from pathlib import Path

import pytest

from benchmarks.harness.machine import memory_of


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux alone says what a process has")
def test_the_memory_of_a_process_by_its_number_and_of_this_one() -> None:
    assert 2**20 < memory_of("self", "VmRSS") <= memory_of(os.getpid(), "VmHWM")


def test_of_a_process_that_is_not_there_no_memory_is_known() -> None:
    assert memory_of(2**30, "VmRSS") == 0
