"""⑤ Encoder batches beside the decoder: padded, and on a GPU on a stream of their own.

Shapes: N sentences, S source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.decoding.pytorch.batch_state import Network
from model.decoding.pytorch.device_memory import to_device
from model.decoding.sentence import Sentence
from model.network.decoder_state import Memory


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of different lengths as one matrix, padded on the right."""
    width = max(map(len, rows))
    return to_device(torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows]), device)


@dataclass(eq=False)
class Encoded:
    """Sentences on their way through the encoder.

    Attributes:
        sentences: Those still wanted, and what the encoder makes of each of them.
        memory: Of all that went in.
        places: Row of each sentence in it.
        is_done: Set by the GPU; None where there is nothing to wait for.
    """

    sentences: list[Sentence]
    memory: Memory
    places: dict[Sentence, int]
    is_done: torch.cuda.Event | None

    def is_ready(self) -> bool:
        """Whether the decoder would not have to wait for it."""
        return self.is_done is None or self.is_done.query()

    def collect(self) -> None:
        """Have the decoder's stream wait until the encoder is through, and keep the memory until then."""
        if self.is_done is not None:
            stream = torch.cuda.current_stream(self.memory.mask_NS.device)
            stream.wait_event(self.is_done)
            for tensor in (self.memory.states_NSM, self.memory.mask_NS):
                tensor.record_stream(stream)

    def of(self, sentences: Sequence[Sentence]) -> Memory:
        """The rows of these."""
        rows = to_device([self.places[s] for s in sentences], self.memory.mask_NS.device)
        return Memory(self.memory.states_NSM[rows], self.memory.mask_NS[rows])


class SideEncoder:
    """Starts encoder batches; at most one computes at a time.

    Args:
        network: In evaluation mode.
        device: Where it lives.
    """

    def __init__(self, network: Network, device: torch.device) -> None:
        self._network, self._device = network, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def encode(self, sentences: Sequence[Sentence]) -> Encoded:
        """Begin; on a CPU it is done on return."""
        places = {sentence: place for place, sentence in enumerate(sentences)}
        if self._stream is None:
            return Encoded(list(sentences), self._encode(sentences), places, None)
        with torch.cuda.stream(self._stream):
            memory = self._encode(sentences)
            is_done = torch.cuda.Event()
            is_done.record(self._stream)
        return Encoded(list(sentences), memory, places, is_done)

    def _encode(self, sentences: Sequence[Sentence]) -> Memory:
        sources = [s.request.source_ids for s in sentences]
        return self._network.encode(pad_rows(sources, self._network.config.pad_id, self._device))
