import json
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import TokenizerError, UnsupportedLanguageError
from model.text.normalisation import clean
from model.text.tokenizer import SETTINGS_FILE, Tokenizer, TokenizerSettings, language_tags, stable_prefix

TrainModel = Callable[..., bytes]
any_text = st.text(st.characters())  # lone surrogates included
OF_EACH_KIND = settings(max_examples=40)
LOOK_ALIKES = ("<s>", "</s>", "<unk>", "<pad>", "<2fr>", "<2en>", "<0x0A>", "▁", "▁</s>", "a</s><2fr>")


def byte_ids(tokenizer: Tokenizer, content: bytes) -> list[int]:
    pieces = tokenizer.pieces(range(tokenizer.target_vocab_size))
    return [pieces.index(f"<0x{byte:02X}>") for byte in content]


def without_forms(text: str) -> str:
    spelt = unicodedata.normalize("NFKD", text).replace("\u2044", "/").replace("\u2010", "-")
    return unicodedata.normalize("NFKD", "".join(spelt.split()))


def test_a_source_sentence_is_tag_pieces_end(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Good morning", target_language="fr")
    assert ids[0] == tokenizer.language_tags["fr"]
    assert ids[-1] == tokenizer.eos_id
    assert tokenizer.source_pieces(ids)[:1] + tokenizer.source_pieces(ids)[-1:] == ["<2fr>", "</s>"]
    assert ids[1:] == tokenizer.encode_target("Good morning")


def test_a_source_is_read_in_characters_of_the_vocabulary_and_a_target_stays(tokenizer: Tokenizer) -> None:
    plain = tokenizer.encode("the cat", target_language="fr")
    for ids in (
        tokenizer.encode("ｔhe ｃat", target_language="fr"),
        *tokenizer.encode_batch(["ｔhe ｃat"], target_language="fr"),
    ):
        assert ids == plain
    assert tokenizer.decode(tokenizer.encode_target("ｔhe ｃat")) == "ｔhe ｃat"


def test_many_at_once_are_encoded_as_one_by_one(tokenizer: Tokenizer) -> None:
    texts = ["Good morning", "", "</s>", "où ?"]
    one_by_one = [tokenizer.encode(text, target_language="fr") for text in texts]
    assert tokenizer.encode_batch(texts, target_language="fr") == one_by_one
    assert tokenizer.encode_target_batch(texts) == [tokenizer.encode_target(text) for text in texts]


def test_blank_text_has_no_pieces(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_target(" \u3000\n\ufeff") == [tokenizer.eos_id]
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("code", ["de", None, "", "EN"])
def test_a_language_without_a_tag_is_refused(tokenizer: Tokenizer, code: str | None) -> None:
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of en, fr"):
        tokenizer.encode("Good morning", target_language=code)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_text_that_looks_special_is_text(tokenizer: Tokenizer, any_tokenizer: Tokenizer, text: str) -> None:
    special = {any_tokenizer.pad_id, any_tokenizer.bos_id, any_tokenizer.eos_id}
    special |= set(any_tokenizer.language_tags.values())
    *ids, _ = any_tokenizer.encode_target(f"{text} cat {text}")
    assert not special & set(ids)
    assert "<0x0A>" not in any_tokenizer.pieces(ids)
    assert tokenizer.decode(tokenizer.encode_target(text)) == text.replace("▁", "_")


@given(text=any_text)
def test_byte_fallback_loses_nothing(tokenizer: Tokenizer, text: str) -> None:
    decoded = tokenizer.decode(tokenizer.encode_target(text))
    assert decoded.split() == tokenizer.settings.prepared(text).split()


@given(text=any_text)
def test_a_source_loses_no_more_than_the_form_of_characters(tokenizer: Tokenizer, text: str) -> None:
    decoded = tokenizer.decode(tokenizer.encode(text, target_language="en"))
    assert without_forms(decoded) == without_forms(tokenizer.settings.prepared(text))


@OF_EACH_KIND
@given(text=any_text)
def test_any_text_can_be_encoded_and_decoded(any_tokenizer: Tokenizer, text: str) -> None:
    special = {any_tokenizer.pad_id, any_tokenizer.bos_id, *any_tokenizer.language_tags.values()}
    tag, *ids, end = any_tokenizer.encode(text, target_language="fr")
    assert (tag, end) == (any_tokenizer.language_tags["fr"], any_tokenizer.eos_id)
    assert not special & set(ids)
    assert any_tokenizer.eos_id not in ids
    any_tokenizer.decode(ids)


@OF_EACH_KIND
@given(data=st.data())
def test_whatever_is_generated_there_is_no_control_character(
    any_tokenizer: Tokenizer, data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.integers(0, any_tokenizer.target_vocab_size - 1)))
    text = any_tokenizer.decode(ids)
    assert clean(text) == text == text.strip()
    assert not any(unicodedata.category(character) == "Cc" for character in text)
    assert len(any_tokenizer.pieces(ids)) == len(ids)


def test_bytes_that_are_no_character_are_left_out(tokenizer: Tokenizer) -> None:
    cat = tokenizer.encode_target("cat")[:-1]
    assert tokenizer.decode([*cat, *byte_ids(tokenizer, b"\xe2\x82\x07\x00"), *cat]) == "cat cat"
    assert tokenizer.decode([*cat, *byte_ids(tokenizer, "\xff€\xe2".encode()[:-1])]) == "catÿ€"


def test_special_ids_are_not_spoken(tokenizer: Tokenizer) -> None:
    cat = tokenizer.encode_target("cat")[:-1]
    special = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id, *tokenizer.language_tags.values()]
    assert tokenizer.decode([*special, *cat, tokenizer.eos_id, *special]) == "cat"


@pytest.mark.parametrize("offset", [-1, 0])
def test_an_id_outside_the_vocabulary_is_refused(tokenizer: Tokenizer, offset: int) -> None:
    id_ = offset or tokenizer.target_vocab_size
    for read in (tokenizer.decode, tokenizer.pieces, tokenizer.source_pieces):
        with pytest.raises(TokenizerError, match=f"has ids from 0 to .*, not {id_}"):
            read([id_])


def test_word_level_text_is_lower_case_with_punctuation_apart(word_tokenizer: Tokenizer) -> None:
    ids = word_tokenizer.encode_target("Where is the CAT?")
    assert word_tokenizer.pieces(ids) == ["▁where", "▁is", "▁the", "▁cat", "▁?", "</s>"]
    assert word_tokenizer.decode(ids) == "where is the cat ?"


def test_an_unknown_word_is_unknown(word_tokenizer: Tokenizer) -> None:
    assert word_tokenizer.encode_target("the axolotl")[1] == word_tokenizer.unk_id


def test_two_vocabularies(tmp_path: Path, train_model: TrainModel) -> None:
    (tmp_path / "source.model").write_bytes(train_model(("the cat sleeps",), vocab_size=290))
    (tmp_path / "target.model").write_bytes(
        train_model(("le chat dort bien",), vocab_size=300, control_symbols=[])
    )
    TokenizerSettings(tags=language_tags(["fr"])).save(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    assert not tokenizer.is_shared
    assert tokenizer.source_vocab_size != tokenizer.target_vocab_size
    assert tokenizer.decode(tokenizer.encode_target("le chat")) == "le chat"
    pieces = tokenizer.source_pieces(tokenizer.encode("the cat", target_language="fr"))
    assert "".join(pieces[1:-1]) == "▁the▁cat"


def test_sides_that_disagree_about_a_special_id_are_refused(tmp_path: Path, train_model: TrainModel) -> None:
    (tmp_path / "source.model").write_bytes(train_model())
    (tmp_path / "target.model").write_bytes(train_model(bos_id=3, eos_id=2))
    TokenizerSettings().save(tmp_path)
    with pytest.raises(
        TokenizerError, match=r"source.model and target.model must agree on the bos id: 2 and 3"
    ):
        Tokenizer.load(tmp_path)


def test_without_tags_the_target_language_changes_nothing(tmp_path: Path, train_model: TrainModel) -> None:
    (tmp_path / "tokenizer.model").write_bytes(train_model())
    TokenizerSettings().save(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.is_shared
    assert tokenizer.encode("cat", target_language="fr") == tokenizer.encode("cat")


@pytest.mark.parametrize("present", [(), ("target.model",)])
def test_a_folder_without_models_says_what_it_must_hold(
    tmp_path: Path, train_model: TrainModel, present: tuple[str, ...]
) -> None:
    TokenizerSettings().save(tmp_path)
    for name in present:
        (tmp_path / name).write_bytes(train_model())
    with pytest.raises(
        TokenizerError, match=r"must hold tokenizer\.model, or source\.model and target\.model"
    ):
        Tokenizer.load(tmp_path)


SPELT = (
    "Where is the station?",
    "the cat of Łódź",
    "the cat 你好 sleeps on the mat",
    "",
    "ŁĄĘŻ",
    "👍 Thanks!",
)
NOT_SPELT = ("👍", "Привет, как дела?", "你好", "a" + "\u0301" * 500, "\ufdfa" * 500)


def test_what_is_mostly_foreign_cannot_be_spelt(tokenizer: Tokenizer) -> None:
    def spelt(texts: Sequence[str]) -> list[str]:
        return [text for text in texts if tokenizer.can_spell(tokenizer.encode(text, target_language="fr"))]

    assert spelt(SPELT) == list(SPELT)
    assert spelt(NOT_SPELT) == []


def test_what_is_mostly_unknown_cannot_be_spelt(word_tokenizer: Tokenizer) -> None:
    """Half of it is not most of it, and neither tag nor end counts."""
    for text, spelt in (("the cat", True), ("the axolotl", True), ("axolotl", False)):
        assert word_tokenizer.can_spell(word_tokenizer.encode(text, target_language="fr")) is spelt


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (TokenizerSettings(), "L'Été  est_là."),
        (TokenizerSettings(lowercase=True), "l'été  est_là."),
        (TokenizerSettings(separate_punctuation=True), "L'Été  est_là ."),
    ],
)
def test_preparing_cleans_and_does_what_is_set(settings: TokenizerSettings, expected: str) -> None:
    assert settings.prepared("L’E\u0301te\u0301\xa0 est\u2581là.\ufeff") == expected


def test_words_behind_marks_have_their_usual_pieces(train_model: TrainModel, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(train_model())
    for is_spaced in (False, True):
        TokenizerSettings(tags=language_tags(["en", "fr"]), space_after_marks=is_spaced).save(tmp_path)
        tokenizer = Tokenizer.load(tmp_path)
        text = 'station (station) "station" station/station.'
        ids = tokenizer.encode(text, target_language="fr")
        assert "".join(tokenizer.source_pieces(ids)).count("▁station") == (5 if is_spaced else 2)
        assert tokenizer.decode(tokenizer.encode_target(text)) == text
        spaced = tokenizer.decode(tokenizer.encode_target("station/ station"))
        assert spaced == ("station/station" if is_spaced else "station/ station")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("\udcff\udcfe{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "`format_version` must be 1"),
        ('{"format_version": 2}', "`format_version` must be 1"),
        ('{"format_version": 1, "colour": "red"}', "unknown setting 'colour'"),
        ('{"format_version": 1, "lowercase": "yes"}', "`lowercase` must be true or false"),
        ('{"format_version": 1, "tags": ["<2fr>"]}', "`tags` must map language codes to pieces"),
        ('{"format_version": 1, "tags": {"fr": ""}}', "`tags` must map language codes to pieces"),
    ],
)
def test_a_file_that_cannot_work_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(TokenizerError, match=SETTINGS_FILE) as caught:
        TokenizerSettings.load(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(TokenizerError, match=r"cannot read .*tokenizer\.json: No such file"):
        TokenizerSettings.load(tmp_path / "none")


def test_settings_are_plain_json_and_read_back(tmp_path: Path) -> None:
    settings = TokenizerSettings(tags=language_tags(["zh"]), lowercase=True, separate_punctuation=True)
    settings.save(tmp_path)
    assert TokenizerSettings.load(tmp_path) == settings
    assert json.loads((tmp_path / SETTINGS_FILE).read_text()) == {
        "format_version": 1,
        "tags": {"zh": "<2zh>"},
        "lowercase": True,
        "separate_punctuation": True,
    }


def test_pieces_that_continue_a_word_are_told(any_tokenizer: Tokenizer) -> None:
    parts = any_tokenizer.word_parts
    assert len(parts) == any_tokenizer.target_vocab_size
    pieces = any_tokenizer.pieces(range(len(parts)))
    told = {piece for piece, is_part in zip(pieces, parts, strict=True) if is_part}
    assert all(piece[0].isalnum() or piece[:4] in ("<0xC", "<0xD") for piece in told)
    special = {"<s>", "</s>", "<unk>", "<pad>", "<2en>", "<2fr>"}
    letters = {piece for piece in pieces if len(piece) == 1 and piece.isalpha()}
    assert letters <= told
    assert not special & told


# Combining marks, jamo, kana with their marks, Thai, apostrophes, wide spaces: where characters meet.
AWKWARD = st.text(
    alphabet="eé\u0301\u0323 漢字かか\u3099ハ\u3099กำ\u0e34한\u1112\u1161\u11ab’'a l.\u3000\u2028🙂\u200d€"
)


def test_the_last_word_is_held_back() -> None:
    stable = {
        "Bonjour": "",
        "Bonjour le": "Bonjour",
        "Où est la gare ?": "Où est la gare",
        "two  spaces": "two",
        "今日は": "今日",
        "今日は元気です。": "今日は元気です",
        "iPhoneを": "iPhone",
        "か\u3099": "",
        "東京 Tokyo": "東京",
    }
    assert {text: stable_prefix(text) for text in stable} == stable


def check(tokenizer: Tokenizer, ids: list[int]) -> None:
    shown, whole = "", tokenizer.decode(ids)
    for length in range(len(ids) + 1):
        text = stable_prefix(tokenizer.decode(ids[:length]))
        assert text.startswith(shown)
        shown = text
    assert whole.startswith(shown)


@OF_EACH_KIND
@given(text=any_text | AWKWARD)
def test_nothing_of_any_text_is_taken_back(any_tokenizer: Tokenizer, text: str) -> None:
    check(any_tokenizer, any_tokenizer.encode_target(text))


@OF_EACH_KIND
@given(data=st.data())
def test_nothing_is_taken_back_whatever_is_generated(any_tokenizer: Tokenizer, data: st.DataObject) -> None:
    check(any_tokenizer, data.draw(st.lists(st.integers(0, any_tokenizer.target_vocab_size - 1))))


@given(content=st.binary(max_size=12), text=AWKWARD)
def test_nothing_is_taken_back_where_bytes_form_characters(
    tokenizer: Tokenizer, content: bytes, text: str
) -> None:
    check(tokenizer, [*byte_ids(tokenizer, content), *byte_ids(tokenizer, text.encode())])
