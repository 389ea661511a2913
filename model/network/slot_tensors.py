"""⑤ What is known of the sentences of a batch: tensors with one row per slot, moved and resized together."""

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor


class SlotTensors:
    """Base of a class that keeps tensors with one row per slot; unused rows hold anything.

    Attributes:
        SLOT_TENSORS: Names of the attributes that are such tensors.
    """

    SLOT_TENSORS: ClassVar[tuple[str, ...]] = ()

    def parts(self) -> Iterator["SlotTensors"]:
        """This object, and others whose slots are the same."""
        yield self

    def slot_tensors(self) -> Iterator[Tensor]:
        """The tensors of all parts."""
        for part in self.parts():
            for name in part.SLOT_TENSORS:
                yield getattr(part, name)

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows `sources` over rows `targets`, both int64 and without a row in common."""
        for tensor in self.slot_tensors():
            tensor.index_copy_(0, targets, tensor.index_select(0, sources))

    def resize(self, slots: int) -> None:
        """Grow to at least `slots` rows; new rows hold zeros."""
        for part in self.parts():
            for name in part.SLOT_TENSORS:
                tensor: Tensor = getattr(part, name)
                if len(tensor) < slots:
                    larger = tensor.new_zeros(slots, *tensor.shape[1:])
                    larger[: len(tensor)] = tensor
                    setattr(part, name, larger)
