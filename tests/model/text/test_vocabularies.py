"""Tokenizers of other projects: ids of a vocabulary, special ids past the model's, frames of sentences."""

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from model.errors import TokenizerError, UnsupportedLanguageError
from model.text.normalisation import without_controls
from model.text.piece_models import SentencePieceModel
from model.text.tokenizer import Tokenizer, TokenizerSettings, write_tokenizer
from tests.model.sentencepieces import pieces_of

TrainModel = Callable[..., bytes]
TAGS = {"fr": "fra_Latn", "en": "eng_Latn"}
SPECIALS = {"pad": 1, "bos": 0, "eos": 2, "unk": 3}
TEXT = "Good morning, ça va\u2019t-il ?"


@pytest.fixture(scope="session")
def plain_model(train_model: TrainModel) -> bytes:
    return train_model(pad_id=-1, unk_id=0, bos_id=1, eos_id=2, control_symbols=[], byte_fallback=False)


@pytest.fixture
def fairseq(plain_model: bytes, tmp_path: Path) -> Tokenizer:
    """Ids as in fairseq: four special ids, then the model's pieces, then languages."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(plain_model)[3:], *TAGS.values()]
    settings = TokenizerSettings(
        tags=TAGS,
        special_ids=SPECIALS,
        source_begin=["{source}"],
        source_end=["</s>"],
        target_begin=["{target}"],
        prepare="none",
    )
    write_tokenizer(
        tmp_path, settings, models={"tokenizer.model": plain_model}, vocabularies={"vocabulary.json": pieces}
    )
    assert TokenizerSettings.load(tmp_path) == settings
    return Tokenizer.load(tmp_path)


def test_ids_are_those_of_the_vocabulary(fairseq: Tokenizer, plain_model: bytes, tmp_path: Path) -> None:
    own = SentencePieceModel(tmp_path / "tokenizer.model", special_ids={"pad": 0, "bos": 0})
    ids = fairseq.encode(TEXT, source_language="en", target_language="fr")
    assert ids[0] == fairseq.language_tags["en"]
    assert ids[1:-1] == [3 if id_ == 0 else id_ + 1 for id_ in own.encode(TEXT)]
    assert ids[-1] == fairseq.eos_id == 2
    assert fairseq.encode_batch([TEXT], source_language="en", target_language="fr") == [ids]
    assert fairseq.target_prefix("en", "fr") == (fairseq.language_tags["fr"],)
    assert fairseq.target_tag_ids == ()
    assert fairseq.source_vocab_size == fairseq.target_vocab_size == own.size + 3
    cat = fairseq.encode_target("the cat")
    assert fairseq.decode([2, *fairseq.target_prefix("en", "fr"), *cat, 1, 0]) == "the cat"


def test_a_frame_needs_the_tag_of_a_language(fairseq: Tokenizer) -> None:
    with pytest.raises(UnsupportedLanguageError, match="`source` must be one of en, fr"):
        fairseq.encode("cat", source_language="de", target_language="fr")
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of en, fr"):
        fairseq.target_prefix("en", None)


def test_text_produces_no_special_id_and_no_tag(fairseq: Tokenizer) -> None:
    reserved = {0, 1, 2, *fairseq.language_tags.values()}
    for text in ("</s>", "<s> cat", "<unk>", "fra_Latn", "eng_Latn cat", "<pad>", "<2fr>"):
        assert not reserved & set(fairseq.encode(text, source_language="en")[1:-1])


@hypothesis.settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters()), data=st.data())
def test_any_text_can_be_encoded_and_any_ids_decoded(
    fairseq: Tokenizer, text: str, data: st.DataObject
) -> None:
    begin, *ids, end = fairseq.encode(text, source_language="en")
    assert (begin, end) == (fairseq.language_tags["en"], fairseq.eos_id)
    assert not {0, 1, 2, *fairseq.language_tags.values()} & set(ids)
    produced = data.draw(st.lists(st.integers(0, fairseq.target_vocab_size - 1)))
    decoded = fairseq.decode(produced)
    assert without_controls(decoded) == decoded == decoded.strip()


def test_special_ids_may_follow_those_of_the_model(plain_model: bytes, tmp_path: Path) -> None:
    size = len(pieces_of(plain_model))
    special_ids = {"bos": size, "pad": size + 1}
    settings = TokenizerSettings(special_ids=special_ids, prepare="none")
    write_tokenizer(tmp_path, settings, models={"tokenizer.model": plain_model})
    tokenizer = Tokenizer.load(tmp_path)
    assert (tokenizer.bos_id, tokenizer.pad_id, tokenizer.eos_id) == (size, size + 1, 2)
    assert tokenizer.source_pieces([size, size + 1, 2]) == ["<s>", "<pad>", "</s>"]
    assert tokenizer.decode([size, *tokenizer.encode("the cat"), size + 1]) == "the cat"
    TokenizerSettings(special_ids=special_ids | {"pad": size + 2}).save(tmp_path)
    with pytest.raises(TokenizerError, match="which special ids must follow"):
        Tokenizer.load(tmp_path)


def test_two_models_share_one_vocabulary(train_model: TrainModel, tmp_path: Path) -> None:
    """As in OPUS-MT: a piece that only the target's model has is known to the source as well."""
    options = {"pad_id": -1, "bos_id": -1, "control_symbols": [], "byte_fallback": False, "vocab_size": 60}
    source = train_model(("the cat sleeps on the mat",), **options)
    target = train_model(("le garçon dort là",), **options)
    (tmp_path / "any.model").write_bytes(source)
    both = pieces_of(target) + pieces_of(source)
    pieces = [*dict.fromkeys(["</s>", "<unk>", ">>fra<<", *both]), "<pad>"]
    settings = TokenizerSettings(
        tags={"fr": ">>fra<<"},
        special_ids={"pad": len(pieces) - 1, "bos": len(pieces) - 1, "eos": 0, "unk": 1},
        prepare="none",
    )
    write_tokenizer(
        tmp_path,
        settings,
        models={"source.model": tmp_path / "any.model", "target.model": target},
        vocabularies={"vocabulary.json": pieces},
    )
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.is_shared
    assert tokenizer.model_files == ("source.model", "target.model")
    ids = tokenizer.encode(">>fra<< ç q", target_language="fr")
    assert [pieces[id_] for id_ in ids if id_ not in (0, 1)][:1] == [">>fra<<"]
    assert ids.count(2) == 1
    assert pieces.index("ç") in ids
    assert tokenizer.decode([2, *tokenizer.encode_target("le garçon")]) == "le garçon"


def test_tags_and_sentinels_that_text_could_produce_are_spelt_and_silent(
    train_model: TrainModel, tmp_path: Path
) -> None:
    """As in MADLAD-400 and mT5, whose models have them as symbols of their own."""
    symbols = ["<2fr>", "<2en>", "<extra_id_0>", "<b>"]
    model = train_model(control_symbols=[], user_defined_symbols=symbols, byte_fallback=False)
    settings = TokenizerSettings(tags={"fr": "<2fr>", "en": "<2en>"}, prepare="none")
    write_tokenizer(tmp_path, settings, models={"tokenizer.model": model})
    tokenizer = Tokenizer.load(tmp_path)
    ids = tokenizer.encode("<2en> the <extra_id_0> <b>cat", target_language="fr")
    pieces = tokenizer.source_pieces(ids)
    assert pieces[0] == "<2fr>"
    assert not set(symbols[:3]) & set(pieces[1:])
    assert "<b>" in pieces
    everything = tokenizer.pieces(range(tokenizer.target_vocab_size))
    assert tokenizer.decode([everything.index(symbol) for symbol in symbols]) == "<b>"


def test_a_frame_may_be_words(train_model: TrainModel, tmp_path: Path) -> None:
    """As in T5, where `translate English to French: ` is text in front of the source."""
    (tmp_path / "tokenizer.model").write_bytes(train_model())
    model = SentencePieceModel(tmp_path / "tokenizer.model")
    words = model.pieces(model.encode("Where is"))
    TokenizerSettings(source_begin=words, prepare="none").save(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    cat = tokenizer.encode_target("the cat")
    assert tokenizer.encode("the cat") == model.encode("Where is") + cat
    assert tokenizer.decode(tokenizer.encode("the cat")) == "Where is the cat"
    assert tokenizer.decode(cat) == "the cat"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"special_ids": {"mask": 1}}, "`special_ids` must map pad, bos, eos, unk to ids"),
        ({"special_ids": {"pad": -1}}, "`special_ids` must map"),
        ({"special_ids": {"pad": True}}, "`special_ids` must map"),
        ({"source_begin": "{target}"}, "`source_begin` must be a list of texts"),
        ({"target_begin": [1]}, "`target_begin` must be a list of texts"),
        ({"prepare": "moses"}, "`prepare` must be one of dragoman, none"),
        ({"pieces": "words"}, "`pieces` must be one of"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        TokenizerSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vocabulary", "frame", "message"),
    [
        ('{"a": 1}', (), r"vocabulary\.json must hold a list of pieces"),
        ('["a", 1]', (), r"vocabulary\.json must hold a list of pieces"),
        ("[", (), "is not JSON"),
        ("[" * 100_000, (), "is not JSON"),
        ('["a"]', (), "must have a pad id"),
        ('["<pad>", "<s>", "</s>", "<unk>"]', ("fra_Latn",), "must have 'fra_Latn'"),
    ],
)
def test_a_vocabulary_that_cannot_work_is_refused(
    tmp_path: Path, train_model: TrainModel, vocabulary: str, frame: tuple[str, ...], message: str
) -> None:
    TokenizerSettings(source_begin=frame, prepare="none").save(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(train_model())
    (tmp_path / "vocabulary.json").write_text(vocabulary)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.load(tmp_path)


def test_only_files_of_a_tokenizer_are_written(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"must be one of tokenizer\.json, tokenizer\.model"):
        write_tokenizer(tmp_path, TokenizerSettings(), models={"source.spm": b""})
