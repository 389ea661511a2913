"""The files of a folder: how they are found, and what they say."""

import gzip
import json
from pathlib import Path

import pytest
import sentencepiece
import yaml

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.formats import recognise
from model.checkpoint.importing.formats.marian_folder import read, recognises
from model.checkpoint.importing.importer import import_model
from model.checkpoint.importing.reader import ForeignModel
from model.errors import CheckpointError
from tests.model.checkpoint.importing.marian.folders import (
    MODEL,
    SHORTLIST,
    make,
    shortlist_bytes,
    vocabulary,
)
from tests.model.checkpoint.importing.marian.networks import FIREFOX, random_tensors, write_npz
from tests.model.sentencepieces import pieces_of

CONFIGURATION = {
    "models": [MODEL],
    "vocabs": ["vocab.enfr.spm", "vocab.enfr.spm"],
    "shortlist": [SHORTLIST, False],
    "beam-size": 4,
    "normalize": 0.6,
    "max-length-factor": 2.5,
}


def tensors_of(model: ForeignModel) -> dict[str, bytes]:
    return {name: read().values.tobytes() for name, read in model.tensors.items()}


@pytest.mark.parametrize("layout", ["int8", "float", "npz"])
def test_folders_and_weight_files_are_recognised(layout: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "enfr", layout=layout).folder
    weights = next(each for each in folder.iterdir() if each.name.startswith("model"))
    for path in (folder, weights):
        found = recognise(path)
        assert found is not None
        assert found.name == "marian"
    assert not recognises(folder / "vocab.enfr.spm")
    assert not recognises(tmp_path)


def test_packed_files_are_read_as_unpacked_ones(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", decoder=CONFIGURATION)
    (made.folder / SHORTLIST).write_bytes(shortlist_bytes(5, [[7, 8]] * 33))
    plain = read(made.folder, None)
    tensors = tensors_of(plain)
    for name in (MODEL, SHORTLIST, "vocab.enfr.spm"):
        path = made.folder / name
        (made.folder / f"{name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = read(made.folder, None)
    assert tensors_of(packed) == tensors
    assert packed.text.models == plain.text.models
    assert packed.shortlist is not None
    assert packed.licence == plain.licence == "MPL-2.0"


def test_the_decoders_configuration_becomes_the_default_search(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", decoder={**CONFIGURATION, "shortlist": []})
    import_model(made.folder, tmp_path / "checkpoint")
    decoding = load_checkpoint(tmp_path / "checkpoint").card.decoding
    assert (decoding.strategy, decoding.beam_size, decoding.stop) == ("beam", 4, "count")
    assert (decoding.length_penalty, decoding.max_length_ratio) == (0.6, 2.5)
    assert decoding.suppress_ids == (1,)


def test_without_a_configuration_search_is_greedy(tmp_path: Path) -> None:
    model = read(make(tmp_path / "enfr").folder, None)
    assert model.decoding["strategy"] == "greedy"
    assert (
        read(make(tmp_path / "two", decoder={"allow-unk": True}).folder, None).decoding["suppress_ids"] == []
    )


@pytest.mark.parametrize(
    ("rename", "information", "pair"),
    [
        ({}, {}, ("en", "fr")),
        ({}, {"src": "German", "trg": "Portuguese"}, ("de", "pt")),
        ({}, {"sourceLanguage": "nb", "targetLanguage": "en"}, ("nb", "en")),
        ({MODEL: "model.bin", "vocab.enfr.spm": "vocab.spm"}, {}, ("cs", "de")),
    ],
)
def test_languages_come_from_the_information_or_the_names(
    rename: dict[str, str], information: dict[str, str], pair: tuple[str, str], tmp_path: Path
) -> None:
    folder = make(tmp_path / "csde-tiny").folder
    for old, new in rename.items():
        (folder / old).rename(folder / new)
    if information:
        (folder / "model_info.json").write_text(json.dumps(information))
    assert read(folder, None).text.pairs == [pair]
    if folder.joinpath("model.bin").is_file():  # the name of a folder is a guess
        assert read(folder, ("ja", "ko")).text.pairs == [("ja", "ko")]
        return
    with pytest.raises(
        CheckpointError, match=f"not translate ja-ko of .--pair., but from {pair[0]} into {pair[1]}"
    ):
        read(folder, ("ja", "ko"))


def test_a_folder_that_tells_no_languages_needs_a_pair(tmp_path: Path) -> None:
    folder = make(tmp_path / "student").folder
    (folder / MODEL).rename(folder / "model.bin")
    (folder / "vocab.enfr.spm").rename(folder / "vocab.spm")
    with pytest.raises(CheckpointError, match="--pair en-fr"):
        read(folder, None)
    assert read(folder, ("en", "fr")).name == "student"


def test_opus_mts_lists_of_pieces_give_the_ids(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", layout="npz")
    pieces = pieces_of(vocabulary())
    ids = {piece: (id_ if id_ < 2 else len(pieces) + 1 - id_) for id_, piece in enumerate(pieces)}
    (made.folder / "vocab.enfr.spm").unlink()
    (made.folder / "opus.spm32k.vocab.yml").write_text(yaml.safe_dump(ids, allow_unicode=True))
    for side in ("source", "target"):
        (made.folder / f"{side}.spm").write_bytes(vocabulary())
    import_model(made.folder, tmp_path / "checkpoint", pair=("en", "fr"))
    tokenizer = load_checkpoint(tmp_path / "checkpoint").tokenizer
    own = sentencepiece.SentencePieceProcessor(model_proto=vocabulary())
    text = "where is the book"
    assert tokenizer.encode(text) == [*(ids[piece] for piece in own.encode(text, out_type=str)), 0]
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_model_of_many_targets_needs_one_of_them(tmp_path: Path) -> None:
    made = make(tmp_path / "student", layout="npz")
    (made.folder / "vocab.enfr.spm").write_bytes(content := vocabulary(33, (">>fra<<", ">>deu<<")))
    made.folder.joinpath("model.enfr.npz").unlink()
    size = len(pieces_of(content))
    write_npz(made.folder / "model.npz", FIREFOX, random_tensors(FIREFOX, (size, size)))
    import_model(made.folder, tmp_path / "checkpoint", pair=("en", "de"))
    tokenizer = load_checkpoint(tmp_path / "checkpoint").tokenizer
    ids = tokenizer.encode("where is", target_language="de")
    assert tokenizer.source_pieces(ids)[0] == ">>deu<<"
    with pytest.raises(CheckpointError, match="does not translate en-es of `--pair`, but into fr, de"):
        read(made.folder, ("en", "es"))


def test_files_packed_by_zstandard_must_be_unpacked_first(tmp_path: Path) -> None:
    folder = make(tmp_path / "enfr").folder
    for path in list(folder.iterdir()):
        path.rename(f"{path}.zst")
    assert recognises(folder)
    with pytest.raises(CheckpointError, match=r"must be unpacked first: zstd -d"):
        read(folder, None)


def test_lists_without_every_id_are_refused(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", layout="npz")
    (made.folder / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 1\nno: 3\n")
    with pytest.raises(CheckpointError, match=r"opus.vocab.yml: `ids` must be the numbers from 0 to 2"):
        read(made.folder, ("en", "fr"))


def test_the_shortlist_is_theirs_and_the_source_itself(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr")
    (made.folder / SHORTLIST).write_bytes(shortlist_bytes(4, [[id_ % 3 + 9, 31] for id_ in range(33)]))
    shared = read(made.folder, None).shortlist
    assert shared is not None
    assert shared.choose([5, 6]).tolist() == [0, 1, 2, 3, 5, 6, 9, 11, 31]
    apart = make(
        tmp_path / "apart", sizes=(33, 26), **{"tied-embeddings-all": False, "tied-embeddings": True}
    )
    (apart.folder / SHORTLIST).write_bytes(shortlist_bytes(4, [[id_ % 3 + 9, 25] for id_ in range(33)]))
    other = read(apart.folder, None).shortlist
    assert other is not None
    assert other.choose([5, 6]).tolist() == [0, 1, 2, 3, 9, 11, 25]


def test_text_shortlists_are_left_out(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr")
    (made.folder / SHORTLIST).write_text("the le 0.5\n")
    assert read(made.folder, None).shortlist is None


def test_provenance_tells_release_information_and_checksums(tmp_path: Path) -> None:
    made = make(tmp_path / "enfr", decoder={"models": [MODEL]})
    (made.folder / "model_info.json").write_text('{"shortName": "en-fr-tiny", "version": 2.0}')
    import_model(made.folder, tmp_path / "checkpoint")
    checkpoint = load_checkpoint(tmp_path / "checkpoint")
    assert checkpoint.card.name == "en-fr-tiny"
    origin = checkpoint.provenance["origin"]
    assert isinstance(origin, dict)
    assert origin["format"] == "marian"
    assert origin["release"].startswith("v1.9.56")
    assert origin["information"]["version"] == 2.0
    assert sorted(origin["files"]) == sorted(path.name for path in made.folder.iterdir())
