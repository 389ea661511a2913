"""What engines are given to decode: random sentences of one length, or a user's text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.engine import DragomanEngine, Engine, Ids
from benchmarks.race import Race
from benchmarks.shapes import FIRST_WORD
from model.config import TransformerConfig
from model.errors import InputError
from model.request import DecodeOptions
from model.translator import Translator

SEARCHES: Mapping[str, Mapping[str, object]] = {
    "greedy": {"strategy": "greedy"},
    "beam-4": {"strategy": "beam", "beam_size": 4},
}
"""Decoding options by name."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of it.

    Attributes:
        searches: Keys of SEARCHES.
        batch_sizes: Sentences an engine gets at a time.
        sentences: Of a round; a larger batch means as many as it holds.
    """

    searches: Sequence[str]
    batch_sizes: Sequence[int]
    sentences: int


def random_races(name: str, config: TransformerConfig, scale: Scale, tokens: int, seed: int) -> list[Race]:
    """Every search with every batch size over random sentences.

    Args:
        name: Of the shape.
        config: The shape.
        scale: How much.
        tokens: Length of each source, EOS included, and of each translation.
        seed: Of the sentences.
    """
    return [
        Race(
            network=name,
            search=search,
            options=DecodeOptions.from_dict({**SEARCHES[search], "max_length": tokens}),
            batch_size=batch_size,
            sources=random_sentences(config, max(scale.sentences, batch_size), tokens, seed),
        )
        for search in scale.searches
        for batch_size in scale.batch_sizes
    ]


def random_sentences(config: TransformerConfig, count: int, tokens: int, seed: int) -> list[Ids]:
    """Sources of one length, EOS included; a longer list begins with the shorter one."""
    generator = torch.Generator().manual_seed(seed)
    shape = count, tokens - 1
    words = torch.randint(FIRST_WORD, config.pad_id, shape, generator=generator).tolist()
    return [(*sentence, config.eos_id) for sentence in words]


def text_races(translator: Translator, lines: Sequence[str], target: str, scale: Scale) -> list[Race]:
    """Every search with every batch size over a user's sentences, the longest first.

    Args:
        translator: Gives the tokenizer, and the decoding defaults that a search keeps.
        lines: A sentence each.
        target: Language to translate into.
        scale: How much; `sentences` is how many lines are taken, spread over all of them.

    Raises:
        InputError: If there is no line.
    """
    sentences = [line for line in lines if line.strip()]
    if not sentences:
        raise InputError("the text must hold at least one sentence", "text")
    chosen = sentences[:: max(1, len(sentences) // scale.sentences)][: scale.sentences]
    sources = [tuple(translator.tokenizer.encode(line, target_language=target)) for line in chosen]
    return [
        Race(
            network=f"{translator.card.name} {translator.card.version}",
            search=search,
            options=translator.card.options(SEARCHES[search]),
            batch_size=batch_size,
            sources=sorted(sources, key=len, reverse=True),
        )
        for search in scale.searches
        for batch_size in scale.batch_sizes
    ]


def checkpoint_engines(folder: Path, precisions: Sequence[str]) -> tuple[Translator, list[Engine]]:
    """A checkpoint in several precisions; the translator is that of the first."""
    translators = [Translator.load(folder, device="cpu", precision=name) for name in precisions]
    return translators[0], [DragomanEngine(each.engine, each.precision) for each in translators]
