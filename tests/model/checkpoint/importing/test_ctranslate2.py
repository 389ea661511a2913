"""Imported CTranslate2 folders translate as CTranslate2 does, and broken ones are refused by name."""

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
import sentencepiece

from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.formats.ctranslate2_folder import recognises
from model.checkpoint.importing.formats.ctranslate2_network import BinaryModel
from model.checkpoint.importing.importer import import_model
from model.decode_request import DecodeOptions
from model.translation.translator import Translator
from tests.conftest import PHRASES
from tests.model.checkpoint.importing.ctranslate2_models import random_spec, save
from tests.model.checkpoint.importing.refusals import refused
from tests.model.sentencepieces import pieces_of, train

TEXTS = [text for pair in PHRASES for text in pair]
LIMIT = 30
GREEDY = DecodeOptions(strategy="greedy", max_length=LIMIT)


@pytest.fixture(scope="module")
def text_model() -> bytes:
    """A SentencePiece model of PHRASES."""
    return train(TEXTS, 120)


@pytest.fixture
def pieces(text_model: bytes) -> list[str]:
    """The pieces of the model without special ones, in another order than the model's."""
    found = pieces_of(text_model)[3:]
    np.random.default_rng(0).shuffle(found)
    return found


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A family of models: its vocabularies, given the pieces of text, and what stands around a sentence.

    Attributes:
        source: Source vocabulary.
        target: Target vocabulary; None for the source's.
        spec: Options of `random_spec`.
        config: Values of config.json.
        name: Name of the folder.
        begin: Pieces that a user of CTranslate2 puts before a sentence into French.
        end: Pieces after it.
        prefix: Target pieces that the user forces.
        is_zero: Whether the decoder begins with a zero vector.
    """

    source: Callable[[list[str]], list[str]]
    target: Callable[[list[str]], list[str]] | None = None
    spec: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)
    name: str = "model-en-fr"
    begin: Sequence[str] = ()
    end: Sequence[str] = ()
    prefix: Sequence[str] = ()
    is_zero: bool = False


KINDS = {
    "OpenNMT": Kind(source=lambda text: ["<unk>", "<blank>", "<s>", "</s>", *text]),
    "OpenNMT-tf, other pieces on both sides": Kind(
        source=lambda text: ["<blank>", "<s>", "</s>", *reversed(text)],
        target=lambda text: ["<blank>", "<s>", "</s>", *text],
        config={"add_source_bos": True, "add_source_eos": True},
    ),
    "other ids on both sides": Kind(
        source=lambda text: ["</s>", *text, "<unk>", "<s>"],
        target=lambda text: ["<unk>", "<s>", *text, "<pad>", "</s>"],
    ),
    "no unknown piece": Kind(source=lambda text: ["<s>", "</s>", *text], config={"unk_token": "never"}),
    "Marian": Kind(
        source=lambda text: ["</s>", "<unk>", *text],
        config={"add_source_eos": True, "decoder_start_token": "</s>"},
        spec={"pre_norm": False, "activation": 2, "tie": ("source", "output")},
        is_zero=True,
    ),
    "Marian, to several languages": Kind(
        source=lambda text: ["</s>", "<unk>", *text, ">>deu<<", ">>fra<<", "<pad>"],
        config={"decoder_start_token": "</s>"},
        name="opus-mt-en-ROMANCE",
        begin=[">>fra<<"],
        end=["</s>"],
        is_zero=True,
    ),
    "NLLB": Kind(
        source=lambda text: ["<s>", "<pad>", "</s>", "<unk>", *text, "deu_Latn", "eng_Latn", "fra_Latn"],
        config={"decoder_start_token": "</s>"},
        name="nllb",
        begin=["eng_Latn"],
        end=["</s>"],
        prefix=["fra_Latn"],
    ),
    "M2M100": Kind(
        source=lambda text: ["<s>", "<pad>", "</s>", "<unk>", *text, "__de__", "__en__", "__fr__"],
        config={"decoder_start_token": "</s>"},
        name="m2m",
        begin=["__en__"],
        end=["</s>"],
        prefix=["__fr__"],
    ),
    "T5": Kind(
        source=lambda text: ["<pad>", "</s>", "<unk>", *text, "<2de>", "<2fr>"],
        config={"decoder_start_token": "<pad>", "bos_token": "<pad>", "add_source_eos": True},
        spec={"rms_norm": True, "relative_attention_bias": True, "bias": False, "ffn_glu": True, "width": 48},
        name="madlad-en-fr",
        begin=["<2fr>"],
    ),
}


def translated(folder: Path, *, source: str = "en", target: str = "fr") -> list[str]:
    translator = Translator.load(folder, device="cpu", precision="float32", retries=False)
    results = translator.translate(TEXTS, source=source, target=target, options=GREEDY)
    return [result.text for result in results]


def by_ctranslate2(folder: Path, model: bytes, kind: Kind) -> list[str]:
    """Returns what CTranslate2 gives for sentences within the pieces that the model expects."""
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    tokens = [[*kind.begin, *processor.encode(text, out_type=str), *kind.end] for text in TEXTS]
    prefixes = [list(kind.prefix) for _ in tokens] if kind.prefix else None
    # A prefix that takes the place of the decoder's first input is not part of the hypotheses.
    begin = 0 if kind.config.get("decoder_start_token", "<s>") is None else len(kind.prefix)
    results = translator.translate_batch(
        tokens, prefixes, beam_size=1, max_decoding_length=LIMIT + begin, min_decoding_length=0
    )
    known = set(pieces_of(model)[3:])
    hypotheses = [result.hypotheses[0][begin:] for result in results]
    return [processor.decode([piece for piece in text if piece in known]).strip() for text in hypotheses]


def written(kind: Kind, pieces: list[str], model: bytes, folder: Path, **options: object) -> Path:
    """Writes a model of this family, with its tokenizer."""
    source = kind.source(pieces)
    target = kind.target(pieces) if kind.target else source
    spec = random_spec(source=source, target=target, **kind.spec)  # type: ignore[arg-type]
    spec.decoder.start_from_zero_embedding = kind.is_zero
    save(spec, folder / kind.name, source=source, target=target, **kind.config, **options)  # type: ignore[arg-type]
    (folder / kind.name / "sentencepiece.model").write_bytes(model)
    return folder / kind.name


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_family_translates_as_with_ctranslate2(
    kind: Kind, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    folder = written(kind, pieces, text_model, tmp_path)
    assert recognises(folder)
    assert recognises(folder / "model.bin")
    import_model(folder, tmp_path / "out")
    assert translated(tmp_path / "out") == by_ctranslate2(folder, text_model, kind)


def test_a_translation_that_starts_with_its_language(
    text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    """As in mBART-25: the caller of CTranslate2 names the decoder's first input."""
    kind = Kind(
        source=lambda text: ["<s>", "<pad>", "</s>", "<unk>", *text, "de_DE", "en_XX", "fr_XX"],
        config={"decoder_start_token": None},
        name="mbart",
        end=["</s>", "en_XX"],
        prefix=["fr_XX"],
    )
    folder = written(kind, pieces, text_model, tmp_path)
    import_model(folder, tmp_path / "out", pair=("en", "fra"))
    assert load_checkpoint(tmp_path / "out").card.pairs == (("en", "fr"),)
    assert translated(tmp_path / "out") == by_ctranslate2(folder, text_model, kind)


def test_languages_that_only_the_user_names(text_model: bytes, pieces: list[str], tmp_path: Path) -> None:
    folder = written(KINDS["OpenNMT"], pieces, text_model, tmp_path)
    import_model(folder, tmp_path / "out", pair=("eng_Latn", "pt-BR"))
    assert load_checkpoint(tmp_path / "out").card.pairs == (("en", "pt-BR"),)


def test_int8_matrices_are_kept(text_model: bytes, pieces: list[str], tmp_path: Path) -> None:
    folder = written(KINDS["Marian"], pieces, text_model, tmp_path, quantization="int8")
    import_model(folder, tmp_path / "out")
    weights = load_checkpoint(tmp_path / "out").weights
    types = {name: tensor.dtype for name, tensor in weights.items()}
    matrices = {name for name in types if name.endswith("weight") and "norm" not in name}
    assert {types[name] for name in matrices} == {"int8"}
    assert {types[name] for name in types.keys() - matrices} == {"float32"}
    assert translated(tmp_path / "out") == by_ctranslate2(folder, text_model, KINDS["Marian"])


def test_an_exported_checkpoint_comes_back(tiny_checkpoint: Path, tmp_path: Path) -> None:
    export_checkpoint(load_checkpoint(tiny_checkpoint), tmp_path / "theirs", "ctranslate2")
    import_model(tmp_path / "theirs", tmp_path / "back")
    before, after = load_checkpoint(tiny_checkpoint), load_checkpoint(tmp_path / "back")
    assert after.card.pairs == before.card.pairs
    assert translated(tmp_path / "back") == translated(tiny_checkpoint)


@pytest.mark.parametrize("kind", [KINDS[name] for name in ("OpenNMT", "Marian", "NLLB", "T5")])
def test_an_imported_model_can_be_exported(
    kind: Kind, text_model: bytes, pieces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_model(written(kind, pieces, text_model, tmp_path), tmp_path / "ours")
    checkpoint = load_checkpoint(tmp_path / "ours")
    export_checkpoint(checkpoint, tmp_path / "theirs", "ctranslate2")
    tokenizer = checkpoint.tokenizer
    encoded = [tokenizer.encode(text, source_language="en", target_language="fr") for text in TEXTS]
    prefix = tokenizer.pieces(tokenizer.target_prefix("en", "fr"))
    translator = ctranslate2.Translator(str(tmp_path / "theirs"), compute_type="float32")
    results = translator.translate_batch(
        [tokenizer.source_pieces(ids) for ids in encoded],
        [prefix for _ in encoded] if prefix else None,
        beam_size=1,
        max_decoding_length=LIMIT + len(prefix),
        min_decoding_length=0,
    )
    vocabulary = tokenizer.pieces(range(checkpoint.config.target_vocab_size))
    ids = [[vocabulary.index(piece) for piece in result.hypotheses[0][len(prefix) :]] for result in results]
    assert [tokenizer.decode(each) for each in ids] == translated(tmp_path / "ours")
    readme = (tmp_path / "theirs" / "README.md").read_text(encoding="utf-8")
    code = (
        readme.split("```python\n")[1]
        .split("```")[0]
        .replace('"."', '"theirs"')
        .replace('Processor("', 'Processor("theirs/')
    )
    monkeypatch.chdir(tmp_path)
    names: dict[str, list[str]] = {}
    exec(code, names)
    source, target = checkpoint.card.pairs[0]
    ids_ = tokenizer.encode("Good morning.", source_language=source, target_language=target)
    assert names["tokens"] == tokenizer.source_pieces(ids_)
    assert names.get("prefix", []) == tokenizer.pieces(tokenizer.target_prefix(source, target))


Break = Callable[[bytearray], bytes]


def replaced(old: bytes, new: bytes) -> Break:
    return lambda content: content.replace(old, new, 1)


def name_bytes(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


NORM = "decoder/layer_0/ffn/layer_norm"
GAMMA, BETA = name_bytes(NORM + "/gamma"), name_bytes(NORM + "/beta")
INDEX = GAMMA + b"\1\x18\0\0\0\0\x60\0\0\0"


def infinite(content: bytearray) -> bytearray:
    start = content.index(INDEX) + len(INDEX)
    content[start : start + 4] = struct.pack("<f", float("inf"))
    return content


ALIAS = name_bytes("decoder/projection/weight")
BROKEN: Mapping[str, tuple[Break, str]] = {
    "empty": (lambda content: content[:0], "is truncated: `version`"),
    "header only": (lambda content: content[:9], "is truncated: `specification`"),
    "cut in a tensor": (lambda content: content[: len(content) // 2], "is truncated: `"),
    "cut at the end": (lambda content: content[:-3], "is truncated: `"),
    "longer than it says": (lambda content: content + b"abc", "`size of the file` must be"),
    "version of the future": (
        lambda content: b"\7\0\0\0" + content[4:],
        "`version` must be 1 to 6, but is 7",
    ),
    "pickle": (lambda content: b"\x80\2}q\0." + content, "`version` must be 1 to 6"),
    "another specification": (
        replaced(b"TransformerSpec\0", b"WhisperXXXXSpec\0"),
        "`specification` must be",
    ),
    "revision of the future": (
        replaced(b"Spec\0\7\0", b"Spec\0\x63\0"),
        "`revision` must be 1 to 7, but is 99",
    ),
    "many variables": (
        replaced(b"Spec\0\7\0\0\0", b"Spec\0\7\0\0\0\xff\xff\xff\xff"),
        "`number of variables`",
    ),
    "no zero after a name": (replaced(b"gamma\0", b"gamma!"), "must be text that ends with a zero byte"),
    "name that is no UTF-8": (replaced(b"gamma\0", b"\xff\xfe\xfd\xfc\xfb\0"), "must be UTF-8"),
    "shape of another size": (
        replaced(GAMMA + b"\1\x18", GAMMA + b"\1\x19"),
        f"`{NORM}/gamma` must be of as many",
    ),
    "huge shape": (replaced(GAMMA + b"\1\x18\0\0\0", GAMMA + b"\1\xff\xff\xff\xff"), f"`{NORM}/gamma`"),
    "many dimensions": (replaced(GAMMA + b"\1", GAMMA + b"\xfe"), "of at most 8 dimensions"),
    "unknown type": (replaced(INDEX, INDEX[:-5] + b"\x63" + INDEX[-4:]), "of a type with a number"),
    "another type": (replaced(INDEX, INDEX[:-5] + b"\3" + INDEX[-4:]), "floating point, int8 or int16"),
    "name there twice": (replaced(BETA, GAMMA[:2] + BETA[2:]), "must be text that ends with a zero byte"),
    "renamed": (replaced(GAMMA, GAMMA.replace(b"gamma", b"gamme")), f"tensor '{NORM}/gamma' is missing"),
    "left over": (replaced(GAMMA, GAMMA.replace(b"layer_0", b"layer_7")), "layer_7/ffn/layer_norm/gamma`"),
    "alias of itself": (
        replaced(ALIAS + name_bytes("decoder/embeddings/weight"), ALIAS + ALIAS),
        "must be an alias of",
    ),
    "infinite": (infinite, "'decoder.layers.0.feed_forward_residual.norm.weight' holds NaN or infinity"),
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused_by_name(
    damage: Break, message: str, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    folder = written(KINDS["Marian"], pieces, text_model, tmp_path)
    path = folder / "model.bin"
    content = path.read_bytes()
    changed = damage(bytearray(content))
    assert changed != content
    path.write_bytes(changed)
    refused(folder, message, format_name="ctranslate2")


CONFIG, VOCABULARY = "config.json", "shared_vocabulary.json"
MIXED_UP: Mapping[str, tuple[str, bytes | None, str]] = {
    "no configuration": (CONFIG, None, "config.json is missing"),
    "a list": (CONFIG, b"[]", "config.json must hold a JSON object"),
    "no JSON": (CONFIG, b"{", "config.json cannot be read as JSON"),
    "a flag that is text": (CONFIG, b'{"add_source_eos": "yes"}', "`add_source_eos` must be true or false"),
    "a token that is a number": (CONFIG, b'{"eos_token": 7}', "`eos_token` must be a text"),
    "no such token": (
        CONFIG,
        b'{"eos_token": "END"}',
        "`eos_token` must be a piece of the target vocabulary",
    ),
    "no such start": (CONFIG, b'{"decoder_start_token": "GO"}', "`decoder_start_token` must be a piece of"),
    "no start": (CONFIG, b'{"decoder_start_token": null}', "`decoder_start_token` must be a piece, or"),
    "epsilon": (CONFIG, b'{"layer_norm_epsilon": -1}', "`layer_norm_epsilon` must be above 0"),
    "low bits": (CONFIG, b'{"quantization_type": 1}', "`quantization_type` must be absent"),
    "no vocabulary": (VOCABULARY, None, "must hold shared_vocabulary.json, or source_vocabulary.json"),
    "an object": (VOCABULARY, b"{}", "shared_vocabulary.json must hold a list of pieces"),
    "a list of numbers": (VOCABULARY, b"[1, 2]", "shared_vocabulary.json must hold a list of pieces"),
    "another vocabulary": (
        VOCABULARY,
        b'["<s>", "</s>", "<unk>"]',
        "of 3 rows, as the vocabulary has pieces",
    ),
    "no UTF-8": (VOCABULARY, b'["\xff"]', "shared_vocabulary.json cannot be read"),
    "no tokenizer": ("sentencepiece.model", None, "holds no tokenizer: put the model's beside model.bin"),
    "another tokenizer": ("sentencepiece.model", b"text", "tokenizer.model"),
}


@pytest.mark.parametrize(("name", "content", "message"), MIXED_UP.values(), ids=MIXED_UP)
def test_a_mixed_up_folder_is_refused_by_name(
    name: str, content: bytes | None, message: str, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    folder = written(KINDS["OpenNMT"], pieces, text_model, tmp_path)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    refused(folder, message, format_name="ctranslate2")


MODELS = "DRAGOMAN_FOREIGN_MODELS"
NAMES = {
    "آتزمون": "atzmon", "آتشيسون": "achison", "آرثر": "arther", "أورباك": "orbak",
    "باراك": "barak", "ليندن": "lenden", "محمد": "mahmad", "فرنسيس": "frences",
}  # fmt: skip


@pytest.mark.skipif(MODELS not in os.environ, reason=f"{MODELS} names the folder of real models")
@pytest.mark.parametrize(
    "name", ["v1/aren-transliteration", "v1/aren-transliteration-i16"]
    + [f"v2/aren-transliteration{kind}" for kind in ("", "-i16", "-i8")]
)  # fmt: skip
def test_the_first_versions_of_the_format_are_read(name: str, tmp_path: Path) -> None:
    folder = Path(os.environ[MODELS]) / "ct2-aren-transliteration" / name
    import_model(folder, tmp_path / "out", pair=("ar", "en"))
    translator = Translator.load(tmp_path / "out", device="cpu", precision="float32", retries=False)
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    for options, size in ((None, 2), (DecodeOptions(strategy="greedy"), 1)):
        results = translator.translate(list(NAMES), source="ar", target="en", options=options)
        assert [result.text for result in results] == list(NAMES.values())
        again = theirs.translate_batch([list(text) for text in NAMES], beam_size=size)
        assert ["".join(result.hypotheses[0]) for result in again] == list(NAMES.values())


def in_version(version: int, path: Path, added: Mapping[str, np.ndarray]) -> None:
    """Writes a file of version 6 as an older version had it, with variables in place of config.json."""
    model = BinaryModel(path)
    content, names = path.read_bytes(), {}
    for name, variable in model.items():
        names.setdefault(id(variable), []).append(name) if version >= 3 else names.update({name: [name]})
    types = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
    sizes = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
    parts, aliases = [], []
    for first, *others in names.values():
        variable = model[first]
        size, count = sizes[variable.dtype], int(np.prod(variable.shape))
        kind = (types.index(variable.dtype), size * count) if version >= 4 else (size, count)
        data = content[variable.offset : variable.offset + size * count]
        head = struct.pack("<B", len(variable.shape)) + np.array(variable.shape, "<u4").tobytes()
        parts.append(name_bytes(first) + head + struct.pack("<BI", *kind) + data)
        aliases += [name_bytes(other) + name_bytes(first) for other in others]
    for name, value in added.items():
        head = struct.pack("<B", value.ndim) + np.array(value.shape, "<u4").tobytes()
        parts.append(name_bytes(name) + head + struct.pack("<BI", 1, value.size) + value.tobytes())
    start = struct.pack("<I", version) + name_bytes("TransformerSpec") + struct.pack("<II", 7, len(parts))
    end = struct.pack("<I", len(aliases)) + b"".join(aliases) if version >= 3 else b""
    path.write_bytes(start + b"".join(parts) + end)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_older_versions_of_the_format_are_read(
    version: int, text_model: bytes, pieces: list[str], tmp_path: Path
) -> None:
    kind = KINDS["Marian"]
    folder = written(kind, pieces, text_model, tmp_path)
    added = {"with_source_eos": np.int8(1), "with_target_bos": np.int8(0)}
    texts = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    added |= {name: np.frombuffer(text.encode(), np.int8) for name, text in texts.items()}
    in_version(version, folder / "model.bin", {name: np.asarray(value) for name, value in added.items()})
    (folder / "config.json").write_text('{"layer_norm_epsilon": null}')
    import_model(folder, tmp_path / "out")
    assert translated(tmp_path / "out") == by_ctranslate2(folder, text_model, kind)
    assert load_checkpoint(tmp_path / "out").config.tie == "all"
