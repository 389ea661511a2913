"""SentencePiece models of a few sentences."""

import io
from collections.abc import Iterable

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

SENTENCES = (
    "where is the station",
    "the book is on the table",
    "i am hungry and tired",
    "what time is it now",
)


def train(texts: Iterable[str], size: int, **options: object) -> bytes:
    """Returns a unigram model of at most `size` pieces: `<unk>`, `<s>`, `</s>`, text."""
    buffer = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=buffer,
        **{"vocab_size": size, "hard_vocab_limit": False, "minloglevel": 2, **options},
    )
    return buffer.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(id_) for id_ in range(processor.get_piece_size())]
