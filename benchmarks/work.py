"""What engines are given to decode: random sentences of one length, or a user's text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.engine import Ids
from benchmarks.race import Race
from benchmarks.shapes import FIRST_WORD
from model.checkpoint.card import ModelCard
from model.config import TransformerConfig
from model.request import DecodeOptions

SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "beam-4": {"strategy": "beam", "beam_size": 4},
}
"""Decoding options by name."""

# Sums in another order may tip a near tie of a real network, once in many sentences.
_LEAST_SAME_OF_TEXT = 0.98


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of it.

    Attributes:
        searches: Keys of SEARCHES.
        threads: Of each engine; every number is a run of its own.
        batch_sizes: Sentences a thread decodes at a time.
        sentences: Of a round; at least as many as all threads hold.
    """

    searches: Sequence[str]
    threads: Sequence[int]
    batch_sizes: Sequence[int]
    sentences: int


def random_races(
    name: str, config: TransformerConfig, scale: Scale, threads: int, tokens: int, seed: int
) -> list[Race]:
    """Every search with every batch size over random sentences.

    Args:
        name: Of the shape.
        config: The shape.
        scale: How much.
        threads: Of each engine.
        tokens: Length of each source, EOS included, and of each translation.
        seed: Of the sentences.
    """
    return [
        Race(
            network=name,
            search=search,
            options=DecodeOptions.from_dict({**SEARCHES[search], "max_length": tokens}),
            threads=threads,
            batch_size=batch_size,
            sources=random_sentences(config, max(scale.sentences, threads * batch_size), tokens, seed),
            least_same=1.0,
        )
        for search in scale.searches
        for batch_size in scale.batch_sizes
    ]


def random_sentences(config: TransformerConfig, count: int, tokens: int, seed: int) -> list[Ids]:
    """Sources of one length, EOS included; a longer list begins with the shorter one."""
    generator = np.random.default_rng(seed)
    words = generator.integers(FIRST_WORD, config.source_vocab_size, (count, tokens - 1)).tolist()
    return [(*sentence, config.eos_id) for sentence in words]


def text_races(card: ModelCard, sources: Sequence[Ids], scale: Scale, threads: int) -> list[Race]:
    """Every search with every batch size over a user's sentences.

    Beams end by rules that differ from engine to engine, so that only greedy translations must agree. All
    have one limit, because peers know no limit that depends on the source.

    Args:
        card: Gives the decoding defaults that a search keeps.
        sources: The longest first.
        scale: How much.
        threads: Of each engine.
    """
    return [
        Race(
            network=f"{card.name} {card.version}",
            search=search,
            options=card.options({**SEARCHES[search], "max_length": card.max_target_length}),
            threads=threads,
            batch_size=batch_size,
            sources=sources,
            least_same=_LEAST_SAME_OF_TEXT if search == "greedy" else 0.0,
        )
        for search in scale.searches
        for batch_size in scale.batch_sizes
    ]
