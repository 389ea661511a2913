"""⑤ The runner in plain PyTorch, the reference of the others; and the network that it computes."""

from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from model.decoding.device import Precision
from model.decoding.pytorch.batch_state import BatchState
from model.decoding.pytorch.device_use import to_device, using
from model.decoding.pytorch.encoding import pad_rows
from model.decoding.pytorch.running_batch import KvAllocator, RunningBatch
from model.decoding.runner import Interrupt, Progress, StepRecord
from model.decoding.sentence import Sentence
from model.network.decoder_state import DecoderState, EncoderOutput
from model.network.layers import choose_attention_kernels
from model.network.parameters import parameter_names
from model.network.quantisation import Rows, int8_works, quantise
from model.network.transformer import Transformer
from model.validators import require

if TYPE_CHECKING:
    from model.checkpoint.folder import Checkpoint

_INITIAL_SLOTS = 8
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def dtype_of(precision: Precision, device: torch.device | str) -> torch.dtype:
    """The floating-point type of a network; with int8, of the parts that are not quantised."""
    if precision == "int8":
        return torch.float32 if torch.device(device).type == "cpu" else torch.bfloat16
    return _DTYPES[precision]


def apply_precision(
    network: Transformer, precision: Precision, stored_rows: Callable[[str], Rows | None] = lambda _: None
) -> Transformer:
    """Finish a network that is in `dtype_of(precision)`; int8 replaces its projections.

    Args:
        network: The network.
        precision: Precision of the computation.
        stored_rows: See `quantise`.

    Raises:
        ConfigError: If PyTorch cannot multiply int8 matrices on the network's device.
    """
    if precision == "int8":
        device = next(network.parameters()).device
        others = f"auto, float32, bfloat16 or float16 on this {device.type}"
        require(int8_works(device), "precision", others, precision)
        quantise(network, stored_rows)
        network.state_dtype = torch.bfloat16  # its rounding is negligible next to 8-bit weights
    return network


def load_network(checkpoint: "Checkpoint", device: str, precision: Precision) -> Transformer:
    """A checkpoint's network on a device, in a precision.

    Raises:
        ConfigError: If PyTorch does not support the precision on the device.
    """
    choose_attention_kernels(device)
    network = checkpoint.network(dtype=dtype_of(precision, device))
    weights, names, dtypes = checkpoint.weights, parameter_names(checkpoint.config), checkpoint.weights.dtypes

    def stored_rows(name: str) -> Rows | None:
        tensor = weights[names[name]] if dtypes[names[name]] == "int8" else None
        if tensor is None or tensor.scale is None:
            return None
        values, scale = torch.from_numpy(tensor.values), torch.from_numpy(tensor.scale)
        return values.to(device), scale.to(device)[:, None]

    with using(torch.device(device)):
        return apply_precision(network.to(device), precision, stored_rows)


def step_in_turn(
    batches: Callable[[], Sequence[RunningBatch]], interrupt: Interrupt, max_steps: int
) -> Progress:
    """See Runner.advance.

    Args:
        batches: Returns the batches that run, none of them empty; called before every step.
        interrupt: See Runner.
        max_steps: See Runner.
    """
    progress = Progress()
    for _ in range(max_steps):
        running = batches()
        if not running:
            break
        _step(running, progress)
        if progress.finished or interrupt.is_set():
            break
    return progress


def _step(batches: Sequence[RunningBatch], progress: Progress) -> None:
    start = perf_counter()
    rows, sentences = sum(b.rows for b in batches), sum(len(b.sentences) for b in batches)
    for batch in batches:
        progress.started.extend(batch.starting)
        progress.finished.extend(batch.step())
    progress.steps.append(StepRecord(perf_counter() - start, rows, sentences))


class TorchRunner:
    """Computes exactly what runs, on a CPU or a GPU; see model.decoding.runner.Runner.

    Sentences with the same number of hypotheses (the width) run as one batch. The batches are stepped in
    turn and share one pool of KV slots.

    Args:
        network: In evaluation mode; its weights may change while nothing runs.
        device: Where the network is.
        max_rows: Most hypotheses at once.
        max_kv_slots: Most KV slots in use at once.
        never_produced: Target ids that no translation may contain, in addition to padding and BOS.
        is_fused: See DecoderState.

    Attributes:
        pool: KV slots of the batches; others may share it.
        allocator: Allocates them.
    """

    @torch.inference_mode()
    def __init__(
        self,
        network: Transformer,
        device: torch.device | str = "cpu",
        *,
        max_rows: int,
        max_kv_slots: int = 2**16,
        never_produced: Collection[int] = (),
        is_fused: bool = False,
    ) -> None:
        self._is_fused = is_fused
        self._network, self._device = network, torch.device(device)
        self.max_rows, self.max_kv_slots = max_rows, max_kv_slots
        self._never_produced = frozenset(never_produced)
        self.allocator = KvAllocator(max_kv_slots)
        with using(self._device):
            self.pool = network.new_pool(max_kv_slots)
            self._tables = network.position_tables(network.config.max_positions)
        self._batches: dict[int, RunningBatch] = {}

    @torch.inference_mode()
    def admit(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        sources = [s.request.source_ids for s in sentences]
        with using(self._device):
            output = self._network.encode(pad_rows(sources, self._network.config.pad_id, self._device))
            try:
                for width in {s.rows: None for s in sentences}:
                    indices = [i for i, s in enumerate(sentences) if s.rows == width]
                    rows = to_device(indices, self._device)
                    own = EncoderOutput(output.states_NSM[rows], output.mask_NS[rows])
                    self.admit_encoded([sentences[i] for i in indices], own)
            except Exception:  # whatever it is: admit all of them or none, then raise it again
                self.drop(sentences)
                raise

    def admit_encoded(self, sentences: Sequence[Sentence], encoder_output: EncoderOutput) -> None:
        """Let encoded sentences of one width take part."""
        if not self.batches() and self._network.config.positions == "relative":
            # Only this table is computed from weights, which may have changed.
            self._tables = self._network.position_tables(self._network.config.max_positions)
        width = sentences[0].rows
        if width not in self._batches:
            self._batches[width] = self._new_batch(width)
        self._batches[width].admit(sentences, encoder_output)

    def _new_batch(self, width: int) -> RunningBatch:
        positions = self._network.config.max_positions
        decoder_state = DecoderState(
            self.pool,
            self._tables,
            slots=_INITIAL_SLOTS,
            width=width,
            capacity=positions,
            source_capacity=positions,
            is_fused=self._is_fused,
        )
        state = BatchState(self._network, decoder_state, self._never_produced)
        return RunningBatch(state, self.allocator)

    def batches(self) -> list[RunningBatch]:
        """The batches that run; the tensors of empty ones are freed."""
        self._batches = {width: batch for width, batch in self._batches.items() if batch.sentences}
        return list(self._batches.values())

    @torch.inference_mode()
    def advance(self, interrupt: Interrupt, max_steps: int) -> Progress:
        """See Runner."""
        with using(self._device):
            return step_in_turn(self.batches, interrupt, max_steps)

    @torch.inference_mode()
    def drop(self, sentences: Sequence[Sentence]) -> None:
        """See Runner."""
        with using(self._device):
            for batch in self._batches.values():
                batch.drop(sentences)

    @torch.inference_mode()
    def stable_prefix(self, sentence: Sentence) -> tuple[int, ...]:
        """See Runner."""
        with using(self._device):
            return self._batches[sentence.rows].stable_prefix(sentence)

    def close(self) -> None:
        """See Runner."""
        self._batches.clear()
        self.pool.free()
