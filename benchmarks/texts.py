"""Texts for a service, one sentence each: words that make just as many tokens as wanted, or real lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.shapes import FIRST_WORD
from model.checkpoint.card import Pair
from model.checkpoint.folder import Checkpoint
from model.errors import InputError
from model.text.document import Document
from model.text.tokenizer import Tokenizer

STEADY = 24
MIXED = (5, 8, 12, 16, 24, 40, 60, 80, 120)
SHORT = 16
"""Sources of up to so many tokens count as short."""


@dataclass(frozen=True)
class SizedText:
    """A text, and what is known of it.

    Attributes:
        text: One sentence.
        tokens: Of the source, tag and EOS included.
        max_length: Most tokens of its translation.
    """

    text: str
    tokens: int
    max_length: int


def word_texts(tokenizer: Tokenizer, lengths: Sequence[int], count: int, seed: int) -> list[SizedText]:
    """Random words, the lengths in turn; translations are to have as many tokens as sources.

    Args:
        tokenizer: With language tags.
        lengths: Tokens of a source.
        count: Of texts.
        seed: Of the words.
    """
    words = list(_whole_words(tokenizer))
    generator = np.random.default_rng(seed)
    texts = []
    for index in range(count):
        tokens = lengths[index % len(lengths)]
        chosen = generator.choice(len(words), tokens - 2)
        texts.append(SizedText(" ".join(words[i] for i in chosen), tokens, tokens))
    return texts


def real_texts(
    checkpoint: Checkpoint, lines: Sequence[str], pair: Pair, lengths: Sequence[int], count: int
) -> list[SizedText]:
    """Lines of single sentences, of each length in turn the one that comes nearest; none twice.

    Args:
        checkpoint: Gives the tokenizer, and the most tokens of a source and of a translation.
        lines: As many as there are.
        pair: Source and target language.
        lengths: Tokens of a source.
        count: Most texts.

    Raises:
        InputError: If no line is a single sentence.
    """
    card = checkpoint.card
    sized = [
        (length, line)
        for line in dict.fromkeys(map(str.strip, lines))
        if (length := len(checkpoint.tokenizer.encode(line, target_language=pair[1])))
        <= card.max_source_length
        and Document.split(line, pair[0]).sentences == (line,)
    ]
    if not sized:
        raise InputError("the text must hold at least one line that is a single sentence", "source-file")
    texts = []
    for index in range(min(count, len(sized))):
        wanted = lengths[index % len(lengths)]
        nearest = min(sized, key=lambda each: abs(each[0] - wanted))
        sized.remove(nearest)
        texts.append(SizedText(nearest[1], nearest[0], card.max_target_length))
    return texts


def _whole_words(tokenizer: Tokenizer) -> Iterator[str]:
    """Words of small letters that are one piece, wherever they stand."""
    ids = range(FIRST_WORD, tokenizer.source_vocab_size)
    for id_, piece in zip(ids, tokenizer.source_pieces(ids), strict=True):
        is_word = piece[0] == "\u2581" and piece[1:].isascii() and piece[1:].isalpha() and piece.islower()
        if is_word and tokenizer.encode_target(piece[1:]) == [id_, tokenizer.eos_id]:
            yield piece[1:]
