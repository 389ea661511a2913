"""⑤ Facts about the sentences of a batch, side by side: tensors with one row a slot.

What is known of a sentence is spread over many tensors. All of them move together when a slot is
emptied and another one takes its place.
"""

from collections.abc import Iterator

from torch import Tensor


class Columns:
    """The tensors among its attributes whose shape suffix begins with N; unused rows hold anything."""

    def columns(self) -> Iterator[tuple[str, Tensor]]:
        """Name and tensor of each."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name.rpartition("_")[2].startswith("N"):
                yield name, value

    def move(self, sources: Tensor, targets: Tensor) -> None:
        """Copy rows `sources` over rows `targets`, both int64 and without a row in common."""
        for _, column in self.columns():
            column.index_copy_(0, targets, column.index_select(0, sources))

    def resize(self, slots: int) -> None:
        """Have at least so many rows; new ones hold zeros."""
        for name, column in list(self.columns()):
            if len(column) < slots:
                larger = column.new_zeros(slots, *column.shape[1:])
                larger[: len(column)] = column
                setattr(self, name, larger)
