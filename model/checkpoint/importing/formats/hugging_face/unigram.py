"""ⓕ A SentencePiece model from a `tokenizer.json` with a unigram model, as transformers 5 saves."""

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from model.checkpoint.importing.foreign import refusal
from model.checkpoint.manifest import read_json

TOKENIZER = "tokenizer.json"
_UNIGRAM = 1
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def has_unigram(folder: Path) -> bool:
    """Returns whether a folder has a `tokenizer.json` with a unigram model."""
    path = folder / TOKENIZER
    model = read_json(path).get("model") if path.is_file() else None
    return isinstance(model, Mapping) and model.get("type") == "Unigram"


def sentencepiece_model(path: Path) -> bytes:
    """Returns a SentencePiece model with the pieces, scores and normalisation of a unigram tokenizer.

    Raises:
        CheckpointError: If a field is missing or malformed.
    """
    content = read_json(path)
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    unknown = model.get("unk_id") if isinstance(model, Mapping) else None
    if not isinstance(vocabulary, list) or not all(map(_is_entry, vocabulary)):
        raise refusal(path, "model.vocab", "a list of pieces with scores", vocabulary)
    listed = added if isinstance(added, list) else []
    specials = {each.get("content") for each in listed if isinstance(each, Mapping) and each.get("special")}
    pieces = []
    for id_, (piece, score) in enumerate(vocabulary):
        kind = _UNKNOWN if id_ == unknown else _CONTROL if piece in specials else _NORMAL
        text = piece.encode("utf-8", errors="replace")
        pieces.append(_field(1, _field(1, text) + b"\x15" + struct.pack("<f", score) + _number(3, kind)))
    normaliser = _field(2, _charsmap(path, content.get("normalizer"))) + b"".join(
        _number(field, 1)
        for field in (3, 4, 5)  # a space first, no repeated spaces, spaces as U+2581
    )
    return b"".join(pieces) + _field(2, _number(3, _UNIGRAM)) + _field(3, normaliser)


def _is_entry(entry: object) -> bool:
    piece, score = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
    return isinstance(piece, str) and isinstance(score, int | float)


def _charsmap(path: Path, normaliser: object) -> bytes:
    """Returns SentencePiece's compiled rules of normalisation; nothing if there are none."""
    for part in _parts(normaliser):
        if part.get("type") == "Precompiled":
            rules = part.get("precompiled_charsmap")
            try:
                return base64.b64decode(rules if isinstance(rules, str) else "", validate=True)
            except (binascii.Error, ValueError) as error:
                raise refusal(path, "precompiled_charsmap", "base64", rules) from error
    return b""


def _parts(normaliser: object) -> Iterable[Mapping[str, object]]:
    if not isinstance(normaliser, Mapping):
        return []
    inner = normaliser.get("normalizers")
    return [each for each in inner if isinstance(each, Mapping)] if isinstance(inner, list) else [normaliser]


def _field(number: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + _varint(value >> 7)
