"""Sentences as a running batch sees them: admitted, and their options as tensors."""

from collections.abc import Sequence

import torch

from model.config import TransformerConfig
from model.decoding.pytorch.slot_options import OptionRows, SlotOptions
from model.decoding.sentence import Sentence
from model.network.decoder_state import DecoderState
from model.network.transformer import Transformer
from tests.model.decoding.networks import EOS, VOCAB, request

CPU = torch.device("cpu")
CONFIG = TransformerConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB, max_positions=16)


def admitted(*, prefix: tuple[int, ...] = (), length: int = 3, **options: object) -> Sentence:
    """A sentence of this many source tokens, with these options."""
    source = (*[4] * (length - 1), EOS)
    return Sentence.admit(request(source, prefix=prefix, **options), CONFIG)


def option_rows(sentences: Sequence[Sentence]) -> OptionRows:
    """Their options, one a slot."""
    options = SlotOptions(len(sentences), CPU)
    options.assign(torch.arange(len(sentences)), *options.values(sentences, CPU))
    return options.first(len(sentences))


def empty_state(network: Transformer, *, slots: int, width: int, capacity: int) -> DecoderState:
    """A state over a pool of its own, large enough for all slots."""
    pool, tables = network.new_pool(slots * (width + 1) * capacity), network.position_tables(capacity)
    sizes = {"slots": slots, "width": width, "capacity": capacity, "source_capacity": capacity}
    return DecoderState(pool, tables, **sizes)
