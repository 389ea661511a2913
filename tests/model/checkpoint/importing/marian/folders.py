"""Folders of random Marian models, as Mozilla, Bergamot and OPUS-MT lay them out."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import sentencepiece
import yaml

from tests.model.checkpoint.importing.marian.networks import (
    FIREFOX,
    Marian,
    quantised,
    random_tensors,
    write_bin,
    write_npz,
)
from tests.model.sentencepieces import SENTENCES, train

MODEL = "model.enfr.intgemm.alphas.bin"
SHORTLIST = "lex.50.50.enfr.s2t.bin"
MAGIC = 0xF11A48D5013417F5
INT8, UPSTREAM_INT8 = 0x4101, 0x10001


@dataclass(frozen=True)
class Made:
    """A folder, the network that it holds, and the pieces of its source."""

    folder: Path
    marian: Marian
    source: sentencepiece.SentencePieceProcessor

    def sources(self, count: int = 12) -> list[list[int]]:
        """Ids of sentences, made of the vocabulary's words."""
        random = np.random.default_rng(3)
        words = " ".join(SENTENCES).split()
        texts = (" ".join(random.choice(words, random.integers(1, 12))) for _ in range(count))
        return [[*self.source.encode(text), self.source.eos_id()] for text in texts]


@cache
def vocabulary(size: int = 33, tags: tuple[str, ...] = ()) -> bytes:
    """A SentencePiece model as Marian trains them: `</s>` is 0, `<unk>` 1."""
    ids = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    return train(SENTENCES * 4, size, user_defined_symbols=list(tags), **ids)


def make(
    folder: Path,
    *,
    layout: str = "int8",
    sizes: tuple[int, int] = (33, 33),
    decoder: Mapping[str, object] | None = None,
    **changes: object,
) -> Made:
    """Writes a model.

    Args:
        folder: The folder to write.
        layout: `int8`, `upstream`, `float`: a `.bin` file of that type; `npz`.
        sizes: Pieces of the source's and the target's vocabulary; one vocabulary if they are equal.
        decoder: Content of `config.yml`; None writes no such file.
        changes: Fields of `special:model.yml` unlike Firefox's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {**FIREFOX, **changes}
    processors = []
    names = ("vocab.enfr.spm",) if sizes[0] == sizes[1] else ("srcvocab.enfr.spm", "trgvocab.enfr.spm")
    for name, size in zip(names, sizes, strict=False):
        (folder / name).write_bytes(vocabulary(size))
        processors.append(sentencepiece.SentencePieceProcessor(model_proto=vocabulary(size)))
    rows = processors[0].get_piece_size(), processors[-1].get_piece_size()
    tensors = random_tensors(config, rows)
    if layout in ("int8", "upstream"):
        write_bin(folder / MODEL, config, tensors, INT8 if layout == "int8" else UPSTREAM_INT8)
        tensors = quantised(tensors)
    elif layout == "float":
        write_bin(folder / "model.enfr.bin", config, tensors)
    else:
        write_npz(folder / "model.enfr.npz", config, tensors)
    if decoder is not None:
        (folder / "config.yml").write_text(yaml.safe_dump(dict(decoder)))
    return Made(folder, Marian(config, tensors), processors[0])


def shortlist_bytes(num_first: int, lists: Sequence[Sequence[int]]) -> bytes:
    """A binary lexical shortlist."""
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    candidates = np.array([each for found in lists for each in found], "<u4")
    header = struct.pack("<6Q", MAGIC, 0, num_first, 50, len(offsets), len(candidates))
    return header + offsets.tobytes() + candidates.tobytes()
