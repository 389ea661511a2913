"""Batches of random words in sentence pairs whose lengths are those of a corpus, or differ as such do."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.checkpoints import EMBEDDED
from benchmarks.shapes import FIRST_WORD
from model.config import TransformerConfig
from model.text.tokenizer import Tokenizer
from model.training.config.data import BatchConfig, CorpusConfig
from model.training.data.batches import Batch, plan_epoch
from model.training.data.corpus import SentencePair, read_pairs
from model.training.data.token_store import Lengths

# Log-normal: half of the sources have up to 14 tokens, one in ten has more than 30.
_MEDIAN, _SPREAD, _TRANSLATION_SPREAD = 14.0, 0.6, 0.2
_SHORTEST, _LONGEST = 3, 128
_NUM_PAIRS = 30_000
"""As many as there are in a small corpus: enough to fill batches with pairs of one length."""

PairLengths = tuple[Lengths, Lengths]
"""Source and target tokens of pairs, tag and EOS included."""


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


def pair_batches(
    config: TransformerConfig, count: int, max_tokens: int, seed: int, lengths: PairLengths
) -> PairBatches:
    """The first batches of an epoch as our trainer plans it.

    Args:
        config: Of the network that is to read them.
        count: How many.
        max_tokens: Budget of a batch, padding charged: pairs × (longest source + longest target).
        seed: Of order and tokens.
        lengths: Of the pairs of an epoch.
    """
    sources, targets = lengths
    plan = plan_epoch(sources, targets, np.ones(len(sources)), BatchConfig(max_tokens=max_tokens), [seed])
    tokens = torch.Generator().manual_seed(seed)
    chosen = (plan.batches[i % len(plan.batches)] for i in range(count))
    return PairBatches(
        batches=[_batch(config, sources[pairs], targets[pairs], tokens) for pairs in chosen],
        padding_share=plan.padding_share,
        unsorted_padding_share=_unsorted_padding_share(sources, targets, len(plan.batches)),
    )


def usual_lengths(seed: int) -> PairLengths:
    """Such as news and talks have; translations are about as long as sources."""
    generator = np.random.default_rng(seed)
    sources = _MEDIAN * np.exp(_SPREAD * generator.standard_normal(_NUM_PAIRS))
    targets = sources * np.exp(_TRANSLATION_SPREAD * generator.standard_normal(_NUM_PAIRS))
    return _whole(sources), _whole(targets)


def corpus_lengths(file: Path, tokenizer_folder: Path = EMBEDDED) -> PairLengths:
    """Of the first pairs of a tab-separated file, in a tokenizer's pieces.

    Raises:
        CorpusError: If the file cannot be read.
    """
    # The codes only name the columns.
    config = CorpusConfig(path=str(file), source_language="source", target_language="target")
    pairs = list(islice(read_pairs(config), _NUM_PAIRS))
    tokenizer = Tokenizer.load(tokenizer_folder)
    return _tokens(tokenizer, pairs, 0), _tokens(tokenizer, pairs, 1)


def _tokens(tokenizer: Tokenizer, pairs: Sequence[SentencePair], side: int) -> Lengths:
    ids = tokenizer.encode_target_batch([pair[side] for pair in pairs])
    return _whole(np.array([len(each) + (1 if side == 0 else 0) for each in ids]))  # sources have a tag


def _whole(lengths: "np.typing.NDArray[np.float64]") -> Lengths:
    return np.clip(np.rint(lengths), _SHORTEST, _LONGEST).astype(np.int32)


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
