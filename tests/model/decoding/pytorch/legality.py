"""What a CUDA graph can hold, told from the operators of a step on a CPU."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Operator = torch._ops.OpOverload
_ATEN = torch.ops.aten
_SYNCHRONISES = {_ATEN._local_scalar_dense, _ATEN.equal}
_FROM_HOST = {_ATEN.lift_fresh, _ATEN.lift_fresh_copy, _ATEN._pin_memory}
_BY_INDEX = {_ATEN.index, _ATEN.index_put, _ATEN.index_put_}
_WITHOUT_KERNEL = {_ATEN.empty, _ATEN.empty_like, _ATEN.new_empty, _ATEN._unsafe_view}


def illegality(func: Operator, args: Sequence[object]) -> str | None:
    """Why a recording cannot hold an operator; None if it can."""
    if fault := _fault_of(func):
        return fault
    if func.overloadpacket in _BY_INDEX and any(
        leaf.dtype in (torch.bool, torch.uint8) for leaf in tensors_in(args[1:2])
    ):
        return f"the shape of {func} depends on data"
    if any(leaf.device.type != "cpu" for leaf in tensors_in(args)):
        return f"{func} copies between host and device"
    if torch.Tag.nondeterministic_seeded in func.tags and not _is_without_dropout(func, args):
        return f"{func} draws random numbers without a seed of its own"
    return None


@cache
def _fault_of(func: Operator) -> str | None:
    """Why a recording cannot hold an operator, whatever its arguments are."""
    if torch.Tag.data_dependent_output in func.tags or func.overloadpacket in _SYNCHRONISES:
        return f"{func} waits for the device"
    if torch.Tag.dynamic_output_shape in func.tags and func.overloadpacket not in _BY_INDEX:
        return f"the shape of {func} depends on data"
    return f"{func} copies between host and device" if func.overloadpacket in _FROM_HOST else None


def _is_without_dropout(func: Operator, args: Sequence[object]) -> bool:
    """Whether it is attention, which draws numbers only for its dropout."""
    places = [i for i, each in enumerate(func._schema.arguments) if each.name == "dropout_p"]
    return bool(places) and all(place >= len(args) or args[place] == 0 for place in places)


@cache
def is_composite(func: Operator) -> bool:
    """Whether an operator is only made of others; inference mode hands it to a dispatch mode as a whole."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def tensors_in(value: object) -> list[Tensor]:
    """The tensors of an argument or a result of an operator, and of lists of them."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in tensors_in(each)]
    return []


def places_of(tensors: list[Tensor]) -> set[int]:
    """Addresses of the memory of tensors."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


class HostOperations(TorchDispatchMode):
    """Counts what the host asks PyTorch for.

    Attributes:
        count: Operators, views included.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        self.count += 1
        return func(*args, **(kwargs or {}))


class LegalityCheck(TorchDispatchMode):
    """Watches one step.

    Attributes:
        faults: Why a recording could not hold it.
        kernels: Operators that a GPU would start a kernel for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.kernels: list[str] = []

    def __torch_dispatch__(
        self, func: Operator, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        if reason := illegality(func, args):
            self.faults.append(reason)
        if not func.is_view and func.overloadpacket not in _WITHOUT_KERNEL:
            self.kernels.append(str(func))
        return func(*args, **kwargs)
