"""Batches of random sentence pairs whose lengths differ as those of real text do."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.shapes import FIRST_WORD
from model.config import TransformerConfig
from model.training.data.batch_plan import plan_epoch
from model.training.data.batches import Batch
from model.training.data.config import BatchConfig
from model.training.data.token_store import Lengths

# Log-normal: half of the sources have up to 14 tokens, one in ten has more than 30.
_MEDIAN, _SPREAD, _TRANSLATION_SPREAD = 14.0, 0.6, 0.2
_SHORTEST, _LONGEST = 3, 128
_EPOCH_BATCHES = 100


@dataclass(frozen=True, kw_only=True)
class PairBatches:
    """Batches and what batching costs.

    Attributes:
        batches: Pairs of similar lengths, in random order.
        padding_share: Padding over all positions, in an epoch of such batches.
        unsorted_padding_share: The same if equally many pairs shared a batch in random order.
    """

    batches: list[Batch]
    padding_share: float
    unsorted_padding_share: float


def pair_batches(config: TransformerConfig, count: int, max_tokens: int, seed: int) -> PairBatches:
    """The first batches of an epoch as our trainer plans it.

    Args:
        config: Of the network that is to read them.
        count: How many; an epoch has about 100.
        max_tokens: Budget of a batch, padding charged: pairs × (longest source + longest target).
        seed: Of lengths, order and tokens.
    """
    generator = np.random.default_rng(seed)
    num_pairs = _EPOCH_BATCHES * max(1, max_tokens // int(2 * _MEDIAN))
    sources, targets = _lengths(num_pairs, generator)
    plan = plan_epoch(sources, targets, np.ones(num_pairs), BatchConfig(max_tokens=max_tokens), [seed])
    tokens = torch.Generator().manual_seed(seed)
    chosen = (plan.batches[i % len(plan.batches)] for i in range(count))
    return PairBatches(
        batches=[_batch(config, sources[pairs], targets[pairs], tokens) for pairs in chosen],
        padding_share=plan.padding_share,
        unsorted_padding_share=_unsorted_padding_share(sources, targets, len(plan.batches)),
    )


def _lengths(count: int, generator: np.random.Generator) -> tuple[Lengths, Lengths]:
    """Source and target tokens of pairs, EOS included; translations are about as long as sources."""
    sources = _MEDIAN * np.exp(_SPREAD * generator.standard_normal(count))
    targets = sources * np.exp(_TRANSLATION_SPREAD * generator.standard_normal(count))
    whole = (np.clip(np.rint(side), _SHORTEST, _LONGEST) for side in (sources, targets))
    first, second = (side.astype(np.int32) for side in whole)
    return first, second


def _unsorted_padding_share(sources: Lengths, targets: Lengths, num_batches: int) -> float:
    sides = [np.array_split(side, num_batches) for side in (sources, targets)]
    padded = sum(len(part) * int(part.max()) for side in sides for part in side)
    return 1 - int(sources.sum() + targets.sum()) / padded


def _batch(
    config: TransformerConfig, sources: Lengths, targets: Lengths, generator: torch.Generator
) -> Batch:
    """Random words, padded, with the targets shifted for teacher forcing."""
    source_NS, labels_NT = (_sentences(config, side, generator) for side in (sources, targets))
    decoder_input_NT = labels_NT.roll(1, dims=1)
    decoder_input_NT[:, 0] = config.decoder_start_id
    decoder_input_NT[labels_NT == config.pad_id] = config.pad_id
    return Batch(
        source_NS=source_NS,
        decoder_input_NT=decoder_input_NT,
        labels_NT=labels_NT,
        num_source_tokens=int(sources.sum()),
        num_target_tokens=int(targets.sum()),
        epoch=0,
        index=0,
    )


def _sentences(config: TransformerConfig, lengths: Lengths, generator: torch.Generator) -> Tensor:
    rows = [
        torch.randint(FIRST_WORD, config.source_vocab_size, (int(n),), generator=generator) for n in lengths
    ]
    for row in rows:
        row[-1] = config.eos_id
    return pad_sequence(rows, batch_first=True, padding_value=config.pad_id)
