"""Networks whose behaviour a decoding test can foresee or vary."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model.config import TransformerConfig
from model.decode_request import DecodeOptions, DecodeRequest
from model.network.decoder_state import DecoderState, EncoderOutput, KeyValuePool, PositionTables, StepShape
from model.network.transformer import Transformer
from tests.model.tiny_networks import randomised, tiny_config

VOCAB = 13
PAD, UNK, BOS, EOS = 0, 1, 2, 3


def lively_network(seed: int = 1, **overrides: object) -> Transformer:
    """A random network that minds the source, and ends its sentences sooner or later."""
    sizes = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "output_bias": True}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = randomised(Transformer(tiny_config(**{**sizes, **overrides})), seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "cross" in name and parameter.dim() == 2:
                parameter.mul_(3.0)
        if network.output.bias is not None:
            network.output.bias[EOS] += 1.0
    return network


def sentences(*lengths: int, seed: int = 5) -> list[tuple[int, ...]]:
    """Random source ids of these lengths, EOS included."""
    generator = torch.Generator().manual_seed(seed)
    return [(*torch.randint(4, VOCAB, (n - 1,), generator=generator).tolist(), EOS) for n in lengths]


def request(source: Sequence[int], *, prefix: Sequence[int] = (), **options: object) -> DecodeRequest:
    """A request with these options."""
    return DecodeRequest(tuple(source), DecodeOptions.from_dict(options), tuple(prefix))


class TableNetwork:
    """The next token depends on the last one alone, by a table of probabilities.

    What the table does not name has probability 0; a row that it does not name ends the sentence.
    """

    def __init__(self, table: Mapping[int, Mapping[int, float]], *, max_positions: int = 16) -> None:
        self.config = TransformerConfig(
            source_vocab_size=VOCAB, target_vocab_size=VOCAB, max_positions=max_positions
        )
        self._probabilities = torch.zeros(VOCAB, VOCAB)
        for last in range(VOCAB):
            for token, probability in table.get(last, {EOS: 1.0}).items():
                self._probabilities[last, token] = probability

    def encode(self, source_NS: Tensor) -> EncoderOutput:
        return EncoderOutput(torch.zeros(*source_NS.shape, 1), source_NS != PAD)

    def decode(self, target_NT: Tensor, encoder_output: EncoderOutput) -> Tensor:
        return self._probabilities[target_NT]

    def project(self, states_NTV: Tensor) -> Tensor:
        return states_NTV.log()

    def new_pool(self, num_kv_slots: int) -> KeyValuePool:
        return KeyValuePool(0, num_kv_slots, 1, 1, self._probabilities)

    def position_tables(self, capacity: int) -> PositionTables:
        return PositionTables()

    def cache_source(self, encoder_output: EncoderOutput, state: DecoderState, slots_N: Tensor) -> None:
        """A table needs no source."""

    def decode_step(
        self,
        tokens_NK: Tensor,
        state: DecoderState,
        shape: StepShape,
        *,
        attention: list[Tensor] | None = None,
    ) -> Tensor:
        state.positions_N[: shape.slots] += 1
        if attention is not None:
            mask_NS = state.is_source_NS[: shape.slots, : shape.source_length].float()
            weights_NS = mask_NS / mask_NS.sum(1, keepdim=True)
            attention.append(weights_NS[:, None].repeat(1, state.width, 1))
        return self._probabilities[tokens_NK].log()
