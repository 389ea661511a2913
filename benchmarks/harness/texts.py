"""What engines and services translate: random sentences of known lengths, or a user's text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.engines import Ids, Translations
from benchmarks.weights import FIRST_WORD
from model.checkpoint.folder import Checkpoint
from model.config import TransformerConfig
from model.errors import InputError
from model.evaluation.scores import score_translations
from model.text.tokenizer import Tokenizer
from model.training.data.corpus import read_lines

SENTENCES = Path(__file__).parents[1] / "sentences.en-fr.tsv"
"""Everyday sentences of 5 to 100 tokens with their translations, written for these benchmarks."""
STEADY = (24,)
MIXED = (5, 8, 12, 16, 24, 40, 60, 80, 120)
SHORT = 16
"""Sources of up to this many tokens count as short."""


def random_sentences(config: TransformerConfig, count: int, tokens: int, seed: int) -> list[Ids]:
    """Sources of one length, EOS included; a longer list begins with the shorter one."""
    generator = np.random.default_rng(seed)
    words = generator.integers(FIRST_WORD, config.source_vocab_size, (count, tokens - 1)).tolist()
    return [(*sentence, config.eos_id) for sentence in words]


@dataclass(frozen=True, kw_only=True)
class EncodedText:
    """A user's sentences as token ids, the longest first."""

    checkpoint: Checkpoint  # the checkpoint whose tokenizer cut them
    target: str  # language to translate into
    sources: Sequence[Ids]  # token ids, tag and EOS included
    references: Sequence[str]  # in the same order; empty where there are none

    def bleu(self, translations: Translations) -> float | None:
        """SacreBLEU of detokenised translations; None without references."""
        if not self.references:
            return None
        texts = [self.checkpoint.tokenizer.decode(ids) for ids in translations]
        return score_translations(texts, [self.references], self.target).bleu


def read_text(checkpoint: Checkpoint, file: Path, target: str, limit: int) -> EncodedText:
    """At most `limit` lines spread over a file, those that the checkpoint's limit allows.

    A line is a sentence; a tab may begin its reference. Files may be compressed (.gz).

    Raises:
        CorpusError: If the file cannot be read.
        InputError: If there is no sentence.
    """
    tokenizer, longest = checkpoint.tokenizer, checkpoint.card.max_source_length
    rows = [line.split("\t") for line in read_lines(file) if line.strip()]
    encoded = [
        (tuple(tokenizer.encode(row[0], target_language=target)), row[1:2])
        for row in rows[:: max(1, len(rows) // limit)][:limit]
    ]
    fitting = sorted((pair for pair in encoded if len(pair[0]) <= longest), key=lambda pair: -len(pair[0]))
    if not fitting:
        raise InputError("the text must hold at least one sentence", "source-file")
    references = [text for _, reference in fitting for text in reference]
    sources = [ids for ids, _ in fitting]
    is_complete = len(references) == len(sources)
    return EncodedText(
        checkpoint=checkpoint, target=target, sources=sources, references=references if is_complete else []
    )


@dataclass(frozen=True)
class SizedText:
    """One sentence for a service, its source tokens (tag and EOS included) and its translation's limit."""

    text: str
    tokens: int
    max_length: int


def word_texts(tokenizer: Tokenizer, lengths: Sequence[int], count: int, seed: int) -> list[SizedText]:
    """Returns texts of random words whose lengths take turns; a translation has its source's length."""
    words = list(_whole_words(tokenizer))
    generator = np.random.default_rng(seed)
    texts = []
    for index in range(count):
        tokens = lengths[index % len(lengths)]
        chosen = generator.choice(len(words), tokens - 2)
        texts.append(SizedText(" ".join(words[i] for i in chosen), tokens, tokens))
    return texts


def _whole_words(tokenizer: Tokenizer) -> Iterator[str]:
    """Words of small letters that are one piece, wherever they stand."""
    ids = range(FIRST_WORD, tokenizer.source_vocab_size)
    for id_, piece in zip(ids, tokenizer.source_pieces(ids), strict=True):
        is_word = piece[0] == "\u2581" and piece[1:].isascii() and piece[1:].isalpha() and piece.islower()
        if is_word and tokenizer.encode_target(piece[1:]) == [id_, tokenizer.eos_id]:
            yield piece[1:]
