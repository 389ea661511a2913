"""The languages, frames and licence of Hugging Face's folders."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import transformers

from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.importing.importer import import_model
from model.errors import CheckpointError
from tests.model.checkpoint.importing import hugging_face_folders as folders
from tests.model.sentencepieces import SENTENCES, pieces_of, train

Pair = tuple[str, str]
EN_FR_ZH = {(source, target) for source in ("en", "fr", "zh") for target in ("en", "fr", "zh")} - {
    (code, code) for code in ("en", "fr", "zh")
}


def imported(folder: Path, pair: Pair | None = None) -> Checkpoint:
    output = folder.parent / "-".join(("imported", *(pair or ())))
    import_model(folder, output, pair=pair)
    return load_checkpoint(output)


def change(path: Path, **values: object) -> None:
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | values), encoding="utf-8")


def pieces(checkpoint: Checkpoint, source: str, target: str) -> list[str]:
    tokenizer = checkpoint.tokenizer
    ids = tokenizer.encode("i am", source_language=source, target_language=target)
    start = tokenizer.target_prefix(source, target)
    return [*tokenizer.source_pieces(ids), "|", *tokenizer.pieces(start)]


def test_nllb(tmp_path: Path) -> None:
    folder = tmp_path / "nllb"
    folders.m2m(folder)
    new = imported(folder)
    assert set(new.card.pairs) == EN_FR_ZH
    found = pieces(new, "en", "zh")
    assert (found[0], found[-3:]) == ("eng_Latn", ["</s>", "|", "zho_Hans"])
    change(folder / "tokenizer_config.json", legacy_behaviour=True)
    old = pieces(imported(folder), "en", "zh")
    assert old == [*found[1:-2], "eng_Latn", "|", "zho_Hans"]
    one = imported(folder, ("fr", "en"))
    assert one.card.pairs == imported(folder, ("fra_Latn", "eng")).card.pairs == (("fr", "en"),)
    assert set(one.tokenizer.language_tags) == {"fr", "en"}
    with pytest.raises(
        CheckpointError, match=r"not translate en-de of `--pair`, but from en, fr, zh into en, fr, zh"
    ):
        imported(folder, ("en", "de"))


@pytest.mark.parametrize("name", ["m2m100", "small100"])
def test_m2m100_and_small100(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folders.m2m(folder)
    texts = pieces_of(folders.MODEL)[3:]
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", *texts]
    folders.write_json(folder / "vocab.json", {piece: id_ for id_, piece in enumerate(vocabulary)})
    tags = ["__en__", "__fr__", "__zh__"]
    folders.write_json(folder / "special_tokens_map.json", {"additional_special_tokens": tags})
    change(
        folder / "tokenizer_config.json", tokenizer_class={"m2m100": "M2M100Tokenizer"}.get(name, "SMALL100")
    )
    checkpoint = imported(folder)
    assert set(checkpoint.card.pairs) == EN_FR_ZH
    found = pieces(checkpoint, "en", "fr")
    ends = (["__fr__"], ["</s>", "|"]) if name == "small100" else (["__en__"], ["</s>", "|", "__fr__"])
    assert (found[:1], found[-len(ends[1]) :]) == ends


def test_m2m100_as_transformers_5_saves_it(tmp_path: Path) -> None:
    folder, vocabulary, model = tmp_path / "m2m", tmp_path / "vocab.json", tmp_path / "text.model"
    model.write_bytes(folders.MODEL)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(folders.MODEL)[3:]]
    folders.write_json(vocabulary, {piece: id_ for id_, piece in enumerate(pieces)})
    original = transformers.M2M100Tokenizer(str(vocabulary), str(model))
    folders.m2m(folder, vocab_size=len(pieces) + 108)
    for name in ("special_tokens_map.json", "tokenizer_config.json", "sentencepiece.bpe.model"):
        (folder / name).unlink()
    original.save_pretrained(folder)
    found = imported(folder, ("en", "zu")).tokenizer
    assert found.encode("i am", source_language="en", target_language="zu") == original("i am").input_ids
    assert found.target_prefix("en", "zu") == (original.get_lang_id("zu"),)


def test_mbart(tmp_path: Path) -> None:
    folder = tmp_path / "mbart"
    rows = len(pieces_of(folders.MODEL)) + 1
    folders.mbart(folder)
    assert set(imported(folder).card.pairs) == EN_FR_ZH
    change(folder / "generation_config.json", forced_bos_token_id=rows)  # en_XX
    assert set(imported(folder).card.pairs) == {("fr", "en"), ("zh", "en")}
    change(folder / "generation_config.json", forced_bos_token_id=None)
    change(folder / "tokenizer_config.json", tokenizer_class="MBartTokenizer")
    with pytest.raises(CheckpointError, match="begins each translation with its language"):
        imported(folder)
    old = imported(folder, ("en", "fr"))
    assert old.config.decoder_start_id == rows + 1
    assert pieces(old, "en", "fr")[-3:] == ["</s>", "en_XX", "|"]


def test_t5_reads_the_task_in_the_text(tmp_path: Path) -> None:
    folder = tmp_path / "t5"
    folders.t5(folder)
    assert set(imported(folder).card.pairs) == {("en", "fr"), ("fr", "en")}
    (folder / "spiece.model").write_bytes(train(SENTENCES * 4, 44, **folders.T5_IDS))
    with pytest.raises(CheckpointError, match="name them, as in `--pair en-fr`"):
        imported(folder)
    tasks = {f"translation_en_to_{code}": {"prefix": f"i am {code}: "} for code in ("fr", "de")}
    change(folder / "config.json", task_specific_params={**tasks, "summarization": {"prefix": "x"}})
    with pytest.raises(CheckpointError, match=r"choose one with `--pair`, of en-fr, en-de"):
        imported(folder)
    found = imported(folder, ("en", "de"))
    assert found.card.pairs == (("en", "de"),)
    assert pieces(found, "en", "de")[0].startswith("\u2581")
    assert "<unk>" in found.tokenizer.settings.source_begin  # the colon


def test_t5_as_transformers_5_saves_it(tmp_path: Path) -> None:
    folder = tmp_path / "t5"
    folders.t5(folder)
    expected = imported(folder)
    original = transformers.T5Tokenizer.from_pretrained(folder, extra_ids=0)
    original.save_pretrained(folder)
    (folder / "spiece.model").unlink()
    found = imported(folder, ("en", "fr"))
    texts = [*SENTENCES, "the  station ", "What TIME?", "it\u2019s \ufb01ne", "\u99c5"]
    for text in texts:
        ids = found.tokenizer.encode(text, source_language="en", target_language="fr")[1:]
        assert ids == original(text).input_ids
        assert ids == expected.tokenizer.encode(text, source_language="en", target_language="fr")[1:]
        assert found.tokenizer.decode(ids) == expected.tokenizer.decode(ids)


def test_mbart_as_transformers_5_saves_it(tmp_path: Path) -> None:
    folder = tmp_path / "mbart"
    folder.mkdir()
    (folder / "sentencepiece.bpe.model").write_bytes(folders.MODEL)
    original = transformers.MBart50Tokenizer.from_pretrained(folder, src_lang="en_XX")
    folders.mbart(folder, vocab_size=len(original))
    for name in ("sentencepiece.bpe.model", "special_tokens_map.json"):
        (folder / name).unlink()
    original.save_pretrained(folder)
    found = imported(folder, ("en", "fr"))
    for text in [*SENTENCES, "the  station", "What TIME?", "\u99c5"]:
        ids = found.tokenizer.encode(text, source_language="en", target_language="fr")
        assert ids == original(text).input_ids
    assert found.tokenizer.target_prefix("en", "fr") == (original.convert_tokens_to_ids("fr_XX"),)


def opus(folder: Path, settings: Mapping[str, object], tags: Mapping[str, int]) -> None:
    folders.marian(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    by_id = {id_: piece for piece, id_ in vocabulary.items()} | {id_: tag for tag, id_ in tags.items()}
    folders.write_json(folder / "vocab.json", {piece: id_ for id_, piece in by_id.items()})
    folders.write_json(folder / "tokenizer_config.json", settings)


def test_opus_mt_with_several_targets(tmp_path: Path) -> None:
    folder = tmp_path / "opus-mt-en-ROMANCE"
    opus(
        folder,
        {"source_lang": "en", "target_lang": "ROMANCE"},
        {">>fra<<": 50, ">>por<<": 51, ">>pt_br<<": 52},
    )
    (folder / "README.md").write_text("---\nlanguage:\n- en\nlicense: cc-by-4.0\n---\n")
    checkpoint = imported(folder)
    assert set(checkpoint.card.pairs) == {("en", "fr"), ("en", "pt"), ("en", "pt-BR")}
    assert checkpoint.card.licence == "cc-by-4.0"
    assert pieces(checkpoint, "en", "pt-BR")[0] == ">>pt_br<<"


@pytest.mark.parametrize(
    ("name", "settings", "readme", "expected"),
    [
        ("opus-mt-en-fr", {}, "", [("en", "fr")]),
        ("opus-mt-tc-big-eng-deu", {}, "", [("en", "de")]),
        ("model", {"source_lang": "eng", "target_lang": "fra"}, "", [("en", "fr")]),
        (
            "opus-mt-gmw-en",
            {},
            "* source language(s): deu nld afr\n",
            [("de", "en"), ("nl", "en"), ("af", "en")],
        ),
        ("model", {}, "", None),
    ],
)
def test_opus_mt_names_its_languages(
    tmp_path: Path, name: str, settings: Mapping[str, object], readme: str, expected: list[Pair] | None
) -> None:
    opus(tmp_path / name, settings, {})
    (tmp_path / name / "README.md").write_text(readme)
    if expected is None:
        with pytest.raises(CheckpointError, match="does not name its languages"):
            imported(tmp_path / name)
    else:
        assert sorted(imported(tmp_path / name).card.pairs) == sorted(expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_kept(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = tmp_path / "opus-mt-en-fr"
    model = folders.marian(folder, generation={"renormalize_logits": True})
    model.to(dtype).save_pretrained(folder)
    found = imported(folder).state_dict()
    assert {tensor.dtype for name, tensor in found.items() if name != "output.bias"} == {dtype}
    assert found["output.bias"].dtype == torch.float32
    assert float(found["output.bias"][folders.PAD]) == -1e4
    assert torch.equal(found["source_embedding.tokens.weight"], model.model.shared.weight)
