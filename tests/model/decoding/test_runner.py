import ctypes
import threading

from model.decoding.runner import Interrupt


def test_it_is_set_and_cleared_from_any_thread() -> None:
    interrupt = Interrupt()
    assert not interrupt.is_set()
    thread = threading.Thread(target=interrupt.set)
    thread.start()
    thread.join()
    assert interrupt.is_set()
    interrupt.clear()
    assert not interrupt.is_set()


def test_its_address_is_where_native_code_reads_it() -> None:
    interrupt = Interrupt()
    flag = ctypes.c_int32.from_address(interrupt.address)
    interrupt.set()
    assert flag.value == 1
    interrupt.clear()
    assert flag.value == 0
