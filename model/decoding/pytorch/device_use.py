"""⑤ Access to a GPU: transfers, the policy for errors, and the gate between use and recordings.

    out of memory   MemoryError; the caller has less computed at once
    another error   raised as it is: the sentence at fault fails alone
    a lost device   DeviceLostError: CUDA repeats some errors in every later call of the process

One thread of the process records at a time, and no other uses a GPU meanwhile.
"""

import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from model.errors import DeviceLostError

# PyTorch's CPU allocator has no error class of its own, only this message.
_CPU_MESSAGE = "can't allocate memory"


class RecordingGate:
    """Lets threads use the GPUs of the process together, or one thread record alone.

    PyTorch allows one recording in a process. Until it ends, no thread may wait for a whole device or empty
    its caches, which an allocation does when memory is short.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._users: Counter[int] = Counter()
        self._recorder: int | None = None

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use a device for some milliseconds; waits for another thread's recording."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: me in self._users or self._recorder in (None, me))
            self._users[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= Counter([me])
                self._changed.notify_all()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record, after all other threads have stopped using a device; they wait until the end of the block.

        Raises:
            RuntimeError: If this thread uses a device: two such threads would wait for each other.
        """
        me = threading.get_ident()
        with self._changed:
            if me in self._users:
                raise RuntimeError("a thread that uses a device may record only if it need not wait")
            self._changed.wait_for(lambda: self._recorder is None)
            self._recorder = me
            self._changed.wait_for(lambda: not self._users)
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def record_if_alone(self) -> Iterator[bool]:
        """Record if no other thread uses a device or records; the value is whether that is so."""
        me = threading.get_ident()
        with self._changed:
            is_alone = self._recorder is None and not self._users.keys() - {me}
            if is_alone:
                self._recorder = me
        try:
            yield is_alone
        finally:
            if is_alone:
                self._release()

    def _release(self) -> None:
        with self._changed:
            self._recorder = None
            self._changed.notify_all()


GATE = RecordingGate()
"""The gate of this process: recordings exclude each other on all devices."""


def is_cuda(device: torch.device) -> bool:
    """Returns whether a device has streams, graphs and memory of its own."""
    return device.type == "cuda"


@contextmanager
def using(device: torch.device) -> Iterator[None]:
    """Use a device for one call of a runner, and translate its errors.

    Raises:
        MemoryError: If the device ran out of memory; what can be freed has been freed.
        DeviceLostError: If the device answers no more in this process.
    """
    with GATE.use() if is_cuda(device) else nullcontext():
        try:
            # PyTorch finds the device by the tensors; Triton uses the thread's.
            with torch.cuda.device(device) if is_cuda(device) else nullcontext():
                yield
        except RuntimeError as error:
            if is_out_of_memory(error):
                # The frames of the error refer to what they had computed so far.
                traceback.clear_frames(error.__traceback__)
                if is_cuda(device):
                    torch.cuda.empty_cache()
                raise MemoryError(str(error).partition("\n")[0]) from error
            require_device(device, error)
            raise


def to_device(values: Sequence[int] | Tensor, device: torch.device) -> Tensor:
    """Integers, or a tensor, on a device; the transfer to a GPU is asynchronous."""
    tensor = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.int64)
    if is_cuda(device) and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Transfer:
    """A copy of a tensor on its way to the host, which may wait for it later.

    Args:
        tensor: What is copied; it may change as soon as this returns.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.to("cpu", copy=True, non_blocking=True)
        self.is_done: torch.cuda.Event | None = None
        if is_cuda(tensor.device):
            self.is_done = torch.cuda.Event()
            self.is_done.record(torch.cuda.current_stream(tensor.device))

    def wait(self) -> Tensor:
        """The copy, after the device has done all that it was given before the transfer."""
        if self.is_done is not None:
            self.is_done.synchronize()
        return self._copy


def is_out_of_memory(error: BaseException | None) -> bool:
    """Returns whether an error is a lack of memory, or follows from one, as at the end of a recording."""
    if error is None:
        return False
    is_itself = isinstance(error, torch.OutOfMemoryError) or _CPU_MESSAGE in str(error)
    return is_itself or is_out_of_memory(error.__context__)


def require_device(device: torch.device, error: RuntimeError) -> None:
    """Check after an error that the device still answers.

    Raises:
        DeviceLostError: If it does not.
    """
    if not isinstance(error, torch.AcceleratorError):
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        reason = str(error).partition("\n")[0]
        raise DeviceLostError(f"{device} answers no more, only a new process can use it: {reason}") from error
