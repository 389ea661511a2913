"""⑤ Encoder batches: padded, and on a GPU computed on a stream of their own.

Shapes: N sentences, S source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from model.decoding.pytorch import device_use
from model.decoding.pytorch.device_use import CudaGraphs, to_device
from model.decoding.sentence import Sentence
from model.network.decoder_state import EncoderOutput
from model.network.transformer import Transformer

_WIDTH_STEP = 32


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of different lengths as one matrix, padded on the right."""
    width = max(map(len, rows))
    return to_device(torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows]), device)


def pad_to_bucket(rows: Sequence[Sequence[int]], pad_id: int, longest: int, device: torch.device) -> Tensor:
    """As `pad_rows`, to one of a few heights and widths: libraries plan their kernels by shape.

    Args:
        rows: Rows of at most `longest` ids.
        pad_id: Fills rows, and further rows.
        longest: The greatest width.
        device: Where the matrix is needed.
    """
    height = power_of_two(len(rows))
    width = min(-(-max(map(len, rows)) // _WIDTH_STEP) * _WIDTH_STEP, longest)
    padded = [[*row, *[pad_id] * (width - len(row))] for row in rows]
    padded += [[pad_id] * width] * (height - len(rows))
    return to_device(torch.tensor(padded), device)


def power_of_two(count: int) -> int:
    """The smallest power of two that is at least `count`, from 1 on."""
    return 1 << (count - 1).bit_length()


@dataclass(eq=False)
class EncoderBatch:
    """Sentences on their way through the encoder.

    Attributes:
        sentences: Those that are still wanted.
        output: Encoder output of all sentences of the batch.
        rows: Row of each sentence in it.
        is_done: Set by the GPU; None where there is nothing to wait for.
    """

    sentences: list[Sentence]
    output: EncoderOutput
    rows: dict[Sentence, int]
    is_done: torch.cuda.Event | None

    def is_ready(self) -> bool:
        """Returns whether the decoder would not have to wait for the encoder."""
        return self.is_done is None or self.is_done.query()

    def collect(self) -> None:
        """Make the decoder's stream wait for the encoder, and keep the output until then."""
        if self.is_done is not None:
            stream = torch.cuda.current_stream(self.output.mask_NS.device)
            stream.wait_event(self.is_done)
            for tensor in (self.output.states_NSM, self.output.mask_NS):
                tensor.record_stream(stream)

    def of(self, sentences: Sequence[Sentence], *, is_bucket: bool = False) -> EncoderOutput:
        """The encoder output of these sentences; a bucket repeats the last row up to a power of two."""
        numbers = [self.rows[s] for s in sentences]
        if is_bucket:
            numbers += numbers[-1:] * (power_of_two(len(numbers)) - len(numbers))
        rows = to_device(numbers, self.output.mask_NS.device)
        return EncoderOutput(self.output.states_NSM[rows], self.output.mask_NS[rows])


class SideEncoder:
    """Starts encoder batches; at most one computes at a time, on a GPU from a recording if it can.

    Args:
        network: In evaluation mode; its weights must not change.
        device: Where the network is.

    Attributes:
        graphs: Recorded batches. Their memory is their own, because decoder steps compute at the same time.
    """

    def __init__(self, network: Transformer, device: torch.device) -> None:
        self._network, self._device, self.graphs = network, device, CudaGraphs(device)
        self._kept: dict[torch.Size, tuple[Tensor, EncoderOutput]] = {}
        self._stream = torch.cuda.Stream(device) if device_use.is_cuda(device) else None
        if self._stream is not None:  # the weights may still be on their way
            self._stream.wait_stream(torch.cuda.current_stream(device))

    def encode(self, sentences: Sequence[Sentence]) -> EncoderBatch:
        """Start to encode sentences; on a CPU they are encoded on return."""
        rows = {sentence: row for row, sentence in enumerate(sentences)}
        if self._stream is None:
            return EncoderBatch(list(sentences), self._encode(sentences), rows, None)
        with torch.cuda.stream(self._stream):
            output = self._encode(sentences)
            is_done = torch.cuda.Event()
            is_done.record(self._stream)
        return EncoderBatch(list(sentences), output, rows, is_done)

    def _encode(self, sentences: Sequence[Sentence]) -> EncoderOutput:
        sources, config = [s.request.source_ids for s in sentences], self._network.config
        sources_NS = pad_to_bucket(sources, config.pad_id, config.max_positions, self._device)
        if self._stream is None:
            return self._network.encode(sources_NS)
        self.graphs.run(*self._work(sources_NS))
        _, output = self._kept[sources_NS.shape]
        return EncoderOutput(output.states_NSM.clone(), output.mask_NS.clone())

    def _work(self, sources_NS: Tensor) -> tuple[torch.Size, Callable[[], None]]:
        shape = sources_NS.shape
        if shape not in self._kept:
            self._kept[shape] = sources_NS, self._network.encode(sources_NS)
        self._kept[shape][0].copy_(sources_NS)
        return shape, partial(self._encode_kept, shape)

    def warm_up(self, most: int) -> None:
        """Record short batches of at most so many sentences; nothing may run."""
        config, counts = self._network.config, (1 << i for i in range(most.bit_length()))
        for count in counts if self._stream else ():
            with device_use.using(self._device):
                rows = [[config.eos_id]] * count
                work = self._work(pad_to_bucket(rows, config.pad_id, config.max_positions, self._device))
            self.graphs.prepare(*work)

    def _encode_kept(self, shape: torch.Size) -> None:
        sources_NS, kept = self._kept[shape]
        output = self._network.encode(sources_NS)
        kept.states_NSM.copy_(output.states_NSM)
        kept.mask_NS.copy_(output.mask_NS)

    def close(self) -> None:
        """Free the recordings and their memory."""
        self.graphs.clear()
        self._kept.clear()
