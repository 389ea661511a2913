"""Broken, truncated and mixed-up files: one line that names the file, and nothing half-written."""

import gzip
import random
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from model.checkpoint.importing.formats import marian_binary_files
from model.checkpoint.importing.formats.marian_folder import read
from model.errors import CheckpointError
from tests.model.checkpoint.importing import refusals
from tests.model.checkpoint.importing.marian.folders import (
    MODEL,
    SHORTLIST,
    Made,
    make,
    shortlist_bytes,
    vocabulary,
)
from tests.model.checkpoint.importing.marian.networks import FIREFOX, random_tensors, write_bin, write_npz

refused = partial(refusals.refused, format_name="marian")
COUNT, FIRST_HEADER, HEADER_BYTES = 8, 16, 32


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return make(tmp_path / "enfr")


def overwrite(path: Path, offset: int, content: bytes) -> None:
    old = path.read_bytes()
    path.write_bytes(old[:offset] + content + old[offset + len(content) :])


@pytest.mark.parametrize("layout", ["int8", "npz"])
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.5, 0.99])
def test_truncated_weights_are_refused(layout: str, share: float, tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", layout=layout)
    path = next(each for each in made.folder.iterdir() if each.name.startswith("model"))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(made.folder, str(made.folder))


@pytest.mark.parametrize(
    ("offset", "content", "words"),
    [
        (0, struct.pack("<Q", 2), ("`version` must be 1, but is 2",)),
        (COUNT, struct.pack("<Q", 2**60), ("number of tensors", str(2**60))),
        (COUNT, struct.pack("<Q", 3), (MODEL,)),
        (FIRST_HEADER, struct.pack("<Q", 2**40), ("length of a tensor's name",)),
        (FIRST_HEADER, struct.pack("<Q", 0), ("length of a tensor's name",)),
        (FIRST_HEADER + 8, struct.pack("<Q", 0x6101), ("'Wemb' must have a type among", "0x6101")),
        (FIRST_HEADER + 8, struct.pack("<Q", 0x404), ("'Wemb' must have 2112 bytes, but has 768",)),
        (FIRST_HEADER + 16, struct.pack("<Q", 9), ("'Wemb'", "`dimensions` must be at most 8")),
        (FIRST_HEADER + 16, struct.pack("<Q", 1), (MODEL,)),
        (FIRST_HEADER + 24, struct.pack("<Q", 2**62), ("'Wemb' must end by byte",)),
    ],
)
def test_headers_that_cannot_be_are_refused(
    offset: int, content: bytes, words: tuple[str, ...], made: Made
) -> None:
    overwrite(made.folder / MODEL, offset, content)
    refused(made.folder, MODEL, *words)


def test_random_damage_is_refused_or_read(made: Made) -> None:
    path = made.folder / MODEL
    content = path.read_bytes()
    generator = random.Random(5)
    for _ in range(75):
        damaged = bytearray(content)
        for _ in range(generator.choice([1, 1, 4])):
            damaged[generator.randrange(8000)] = generator.choice([0, 1, 0x7F, 0x80, 0xFF])
        path.write_bytes(damaged)
        with suppress(CheckpointError):
            for each in read(made.folder, None).tensors.values():
                each()


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
def test_a_multiplier_that_is_not_positive_is_refused(number: float, made: Made) -> None:
    path = made.folder / MODEL
    content = path.read_bytes()
    count = struct.unpack_from("<Q", content, COUNT)[0]
    tensors = len(content) - sum(
        struct.unpack_from("<Q", content, FIRST_HEADER + HEADER_BYTES * each + 24)[0] for each in range(count)
    )
    overwrite(path, tensors + 33 * 16, struct.pack("<f", number))
    refused(made.folder, MODEL, "`Wemb` must be quantised by a positive multiplier")


def test_tensors_that_are_missing_or_misshapen_are_refused(made: Made) -> None:
    tensors = random_tensors(FIREFOX, (33, 33))
    removed = tensors.pop("decoder_l2_context_Wk")
    write_bin(made.folder / MODEL, FIREFOX, tensors)
    refused(made.folder, MODEL, "tensor 'decoder_l2_context_Wk' is missing")
    write_bin(made.folder / MODEL, FIREFOX, {**tensors, "decoder_l2_context_Wk": removed[:, :8]})
    refused(made.folder, "tensor 'decoder_l2_context_Wk' must have shape [16, 16]")
    write_bin(made.folder / MODEL, FIREFOX, {**tensors, "decoder_l2_context_Wk": removed.reshape(-1)})
    refused(made.folder, MODEL, "must have shape [16, 16] in this network, but has [256]")
    write_bin(made.folder / MODEL, FIREFOX, {**tensors, "decoder_l2_context_Wk": removed, "extra_W": removed})
    refused(made.folder, MODEL, "tensor 'extra_W' is not part of a network that we can compute")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("type", "s2s", "must be 'transformer', but is 's2s'"),
        ("dec-cell", "gru", "must be 'ssru', but is 'gru'"),
        ("transformer-decoder-autoreg", "average-attention", "must be 'self-attention' or 'rnn'"),
        ("transformer-ffn-activation", "gelu", "must be 'swish' or 'relu'"),
        ("transformer-ffn-depth", 3, "must be 2, but is 3"),
        ("transformer-postprocess", "hn", "must be da after a preprocess of n, or dan"),
        ("transformer-postprocess-top", "a", "must be '' or 'd' or 'n' or 'nd' or 'dn'"),
        ("transformer-tied-layers", [1], "must be 2 numbers of layers"),
        ("tied-embeddings-all", "yes", "must be true or false"),
        ("right-left", True, "must be False, but is True"),
        ("lemma-dim-emb", 8, "must be 0, but is 8"),
        ("dim-emb", "wide", "must be an integer of at least 0, but is 'wide'"),
        ("enc-depth", 10**9, "num_encoder_layers"),
        ("transformer-heads", 3, "num_heads"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_its_field(
    field: str, value: object, message: str, made: Made
) -> None:
    write_bin(made.folder / MODEL, {**FIREFOX, field: value}, random_tensors(FIREFOX, (33, 33)))
    refused(made.folder, MODEL, message, *([f"`{field}`"] if message.startswith("must") else []))


def test_norms_before_blocks_need_a_release_that_applies_them_to_keys(made: Made) -> None:
    config = {**FIREFOX, "transformer-preprocess": "n", "transformer-postprocess": "da"}
    write_bin(made.folder / MODEL, config, random_tensors(config, (33, 33)))
    refused(made.folder, MODEL, "`version` must be v1.11 or later")


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def _short(lists: Sequence[Sequence[int]], end: int | None = None) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(shortlist_bytes(5, lists)[:end])


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("vocab.enfr.spm", _text(""), ("vocab.enfr.spm is not a SentencePiece model",)),
        ("vocab.enfr.spm", _text("text"), ("vocab.enfr.spm is not a SentencePiece model",)),
        ("vocab.enfr.spm", Path.unlink, ("the vocabulary is missing: put the model's *.spm",)),
        ("config.yml", _text("models: [other.bin]"), ("config.yml: `models`", "'other.bin'")),
        ("config.yml", _text("models: [../../etc/passwd]"), ("config.yml: `models`", "files of this folder")),
        ("config.yml", _text(f"models: [{MODEL}, {MODEL}]"), ("config.yml: `models` must be one file",)),
        ("config.yml", _text("vocabs: text"), ("config.yml: `vocabs` must be a list of files",)),
        ("config.yml", _text("- a list"), ("config.yml must hold a YAML mapping",)),
        ("config.yml", _text("{"), ("config.yml is not YAML",)),
        ("config.yml", _text("a: " + "[" * 200_000), ("config.yml must be YAML", "nested 10 deep")),
        ("config.yml", _text("- " * 50_000), ("config.yml must be YAML", "nested 10 deep")),
        ("config.yml", _text("a: &a [x]\nmodels: [*a, *a]"), ("config.yml must be YAML without aliases",)),
        ("config.yml", _text("beam-size: many"), ("config.yml: `beam-size` must be a number",)),
        ("config.yml", _text("word-penalty: 1"), ("config.yml: `word-penalty` must be 0",)),
        (SHORTLIST, _text(""), (SHORTLIST, "`magic number`")),
        (SHORTLIST, _short([[1]], 20), (SHORTLIST, "`size`")),
        (SHORTLIST, _short([[1]], -1), (SHORTLIST, "`size`")),
        (SHORTLIST, _short([[99]]), ("`lists` must be target ids",)),
        (SHORTLIST, _short([[1]] * 99), ("`number of offsets`",)),
        ("metadata.json", _text("["), ("metadata.json cannot be read as JSON",)),
        (
            "vocab.enfr.spm",
            lambda path: path.write_bytes(vocabulary(33).replace(b"</s>", b"</x>")),
            ("vocab.enfr.spm must have the piece '</s>'",),
        ),
    ],
)
def test_damage_of_other_files_is_refused(
    name: str, damage: Callable[[Path], object], words: tuple[str, ...], made: Made
) -> None:
    damage(made.folder / name)
    refused(made.folder, *words)


def test_a_vocabulary_larger_than_the_embedding_is_refused(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", sizes=(26, 26))
    (made.folder / "vocab.enfr.spm").write_bytes(vocabulary(33))
    refused(made.folder, "vocab.enfr.spm: `size` must be at most 26")


def test_truncated_archives_are_refused(made: Made) -> None:
    content = gzip.compress((made.folder / MODEL).read_bytes())
    (made.folder / MODEL).unlink()
    (made.folder / f"{MODEL}.gz").write_bytes(content[: len(content) // 2])
    refused(made.folder, f"{MODEL}.gz")


def test_pickles_in_archives_are_not_read(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", layout="npz")
    tensors = random_tensors(FIREFOX, (33, 33))
    path = made.folder / "model.enfr.npz"
    write_npz(path, FIREFOX, {**tensors, "Wemb": np.array([{}], dtype=object)})
    refused(made.folder, "model.enfr.npz is not a Marian model: Array can't be memory-mapped")
    write_npz(path, FIREFOX, {**tensors, "Wemb": np.asfortranarray(tensors["Wemb"])})
    refused(made.folder, "model.enfr.npz: tensor 'Wemb' must hold numbers in rows")


def test_an_archive_that_claims_too_much_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(tmp_path / "enfr", layout="npz")
    monkeypatch.setattr(marian_binary_files, "_MOST_UNPACKED_BYTES", 10_000)
    refused(made.folder, "model.enfr.npz: `size when unpacked` must be at most 10000 bytes")
