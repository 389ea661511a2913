"""The folder of a Marian model, such as Firefox Translations' or OPUS-MT's original ones. No torch.

Any of its files may be packed (`.gz`). A configuration of the decoder (`config….yml`, `decoder.yml`) lists
the others; without one they are told apart by their names.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint.card import Pair
from model.checkpoint.importing.formats.marian_binary_files import (
    ZSTANDARD,
    MarianFile,
    is_marian_file,
    read_marian_shortlist,
    read_yaml,
    unpacked,
)
from model.checkpoint.importing.formats.marian_network import MarianNetwork
from model.checkpoint.importing.reader import (
    ForeignModel,
    ForeignText,
    card_name,
    chosen_pairs,
    language_tags,
    refusal,
)
from model.checkpoint.importing.vocabulary import filled, load_sentencepiece, pieces_of, vocabulary_lists
from model.checkpoint.manifest import read_json
from model.config import TransformerConfig
from model.errors import CheckpointError
from model.text.languages import LANGUAGE_NAMES, SHORT_CODES, bare_tag, canonical_code
from model.text.tokenizer import SHARED_FILE, SOURCE_FILE, TARGET_FILE, TokenizerSettings

_WEIGHTS = re.compile(r".*\.(npz|bin)(\.gz|\.zst)?")
_SHORTLIST = re.compile(r"lex.*\.bin(\.gz)?")
_LIST = re.compile(r".*vocab.*\.ya?ml(\.gz)?")
_SENTENCEPIECE = re.compile(r".*\.spm(\.gz)?")
_DECODER = re.compile(r"(config|decoder|.*\.decoder).*\.ya?ml")
_INFORMATION = ("model_info.json", "metadata.json")
_LANGUAGES_IN_FILES = re.compile(r"[._-]([a-z]{2})-?([a-z]{2})[._-]")
_LANGUAGES_IN_FOLDERS = re.compile(
    r"(?:^|[._-])([a-z]{2,3})-([a-z]{2,3})(?![a-z])|^([a-z]{2})([a-z]{2})(?![a-z])"
)
_END, _UNKNOWN = "</s>", "<unk>"
_CONTROL_BYTES = frozenset(f"<0x{byte:02X}>" for byte in range(32))
# Mozilla names its files so, and publishes them under this licence.
_FIREFOX = re.compile(r"model\.[a-z]{4}\.intgemm\.alphas\.bin(\.gz)?")
_FIREFOX_LICENCE = "MPL-2.0"


@dataclass(frozen=True, kw_only=True)
class MarianFolder:
    """The files of a model.

    Attributes:
        path: The folder.
        weights: File of the weights.
        vocabularies: SentencePiece models or lists of both sides; the same twice if shared.
        sentencepiece: The SentencePiece models of both sides, if the vocabularies are lists.
        shortlist: File of the shortlist.
        decoder: Content of the decoder's configuration; empty if there is none.
        information: Content of `model_info.json` or `metadata.json`; empty if there is none.
        files: All of these files.
    """

    path: Path
    weights: Path
    vocabularies: tuple[Path, Path]
    sentencepiece: tuple[Path, Path]
    shortlist: Path | None
    decoder: Mapping[str, object]
    information: Mapping[str, object]
    files: Sequence[Path]

    def pairs(self, *, is_guessed: bool) -> list[Pair]:
        """Returns the languages that the files tell or, if they may be guessed, the name of the folder."""
        files = (self.weights.name, *(path.name for path in self.vocabularies))
        found = self._pair_of_information() or _pair_of_names(_LANGUAGES_IN_FILES, files)
        if found is None and is_guessed:
            found = _pair_of_names(_LANGUAGES_IN_FOLDERS, [self.path.resolve().name])
        return [found] if found else []

    def number(self, field: str, default: float) -> float:
        """Returns a number of the decoder's configuration."""
        value = self.decoder.get(field, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise refusal(self.path, field, "a number", value)
        return value

    def _pair_of_information(self) -> Pair | None:
        codes = {name: code for code, name in LANGUAGE_NAMES.items()}
        for source, target in (("src", "trg"), ("sourceLanguage", "targetLanguage")):
            named = self.information.get(source), self.information.get(target)
            known = [codes.get(name, name) for name in named if isinstance(name, str)]
            if len(known) == 2 and all(canonical_code(code) in LANGUAGE_NAMES for code in known):
                return known[0], known[1]
        return None


@dataclass(frozen=True, kw_only=True)
class MarianVocabulary:
    """The vocabularies of both sides.

    Attributes:
        pieces: The pieces of the source and of the target, by id.
        eos_id: Id of `</s>` on both sides.
        unk_id: Id of `<unk>` on both sides.
        models: Content of the SentencePiece models, by our file names.
        is_list: Whether ids are those of lists, not those of the SentencePiece models.
    """

    pieces: tuple[Sequence[str], Sequence[str]]
    eos_id: int
    unk_id: int
    models: Mapping[str, bytes]
    is_list: bool

    def control_bytes(self) -> list[int]:
        """Returns the target ids of control characters, which Marian does not produce."""
        return [id_ for id_, piece in enumerate(self.pieces[1]) if piece in _CONTROL_BYTES]

    @property
    def tags(self) -> dict[str, str]:
        """The source pieces that ask for a target language, by language."""
        return language_tags(piece for piece in self.pieces[0] if bare_tag(piece))

    def settings(self, config: TransformerConfig, target: str) -> TokenizerSettings:
        """Returns the tokenizer's settings: text as typed, the network's special ids, the target's tag.

        Args:
            config: The network.
            target: Code of the target language; if the source has tags of languages, one must be its.
        """
        names = ("pad", "bos", "eos", "unk")
        ids = {name: int(getattr(config, f"{name}_id")) for name in names}
        tags = self.tags
        if tags and target not in tags:
            known = ", ".join(sorted(tags))
            raise CheckpointError(
                f"the model translates into {known}: choose one, as in --pair en-{min(tags)}"
            )
        return TokenizerSettings(special_ids=ids, prepare="none", tags={target: tags[target]} if tags else {})

    def lists(self, config: TransformerConfig) -> dict[str, Sequence[str]]:
        """Returns the lists of pieces, by our file names; none if the models' own ids are the network's."""
        rows = config.bos_id
        if not self.is_list and all(len(pieces) == rows for pieces in self.pieces):
            return {}
        return vocabulary_lists(*(filled(pieces, rows) for pieces in self.pieces))


def _pair_of_names(pattern: re.Pattern[str], names: Sequence[str]) -> Pair | None:
    for match in filter(None, map(pattern.search, names)):
        source, target = (SHORT_CODES.get(code, code) for code in match.groups() if code)
        if {canonical_code(source), canonical_code(target)} <= LANGUAGE_NAMES.keys() and source != target:
            return source, target
    return None


def recognises(path: Path) -> bool:
    """Returns whether a path is Marian's weight file, or a folder with one."""
    if not path.is_dir():
        return path.is_file() and _WEIGHTS.fullmatch(path.name) is not None and is_marian_file(path)
    candidates = [each for each in _named(path, _WEIGHTS) if not _SHORTLIST.fullmatch(each.name)]
    if any(map(is_marian_file, candidates)):
        return True
    if candidates and _named(path, _SENTENCEPIECE) and not (path / "config.json").exists():
        raise CheckpointError(f"{candidates[0]} is not a Marian model, or is truncated")
    return False


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a Transformer whose decoder has self-attention or SSRU cells."""
    folder = open_folder(path)
    network = MarianNetwork(MarianFile(folder.weights))
    vocabulary = read_vocabulary(folder, (network.source_size, network.target_size))
    config = network.config(vocabulary.eos_id, vocabulary.unk_id)
    known = [] if pair and vocabulary.tags else folder.pairs(is_guessed=pair is None)
    (languages,) = chosen_pairs(folder.path, known, pair, vocabulary.tags)
    is_firefox = _FIREFOX.fullmatch(folder.weights.name) is not None
    return ForeignModel(
        config=config,
        tensors=network.tensors(config),
        text=ForeignText(
            settings=vocabulary.settings(config, languages[1]),
            models=vocabulary.models,
            vocabularies=vocabulary.lists(config),
            pairs=[languages],
        ),
        name=card_name(folder.information.get("shortName"), folder.path.resolve().name, default="marian"),
        max_source_length=config.max_positions,
        max_target_length=config.max_positions,
        decoding=_decoding(folder, vocabulary),
        licence=_FIREFOX_LICENCE if is_firefox else "",
        shortlist=read_marian_shortlist(folder.shortlist, config) if folder.shortlist else None,
        files=folder.files,
        origin={
            "release": network.version,
            "information": dict(folder.information),
        },
    )


def _decoding(folder: MarianFolder, vocabulary: MarianVocabulary) -> Mapping[str, object]:
    """Returns the options of the decoder's configuration; Marian never produces `<unk>` unless told to."""
    if folder.number("word-penalty", 0):
        raise refusal(folder.path, "word-penalty", "0", folder.number("word-penalty", 0))
    beam_size = int(folder.number("beam-size", 1))
    unknown = [] if folder.decoder.get("allow-unk", False) is True else [vocabulary.unk_id]
    # Marian's beam ends with its last hypothesis, but gets narrower by each that has finished.
    beam = {"strategy": "beam", "beam_size": beam_size, "stop": "count"}
    return {
        **(beam if beam_size > 1 else {"strategy": "greedy"}),
        "length_penalty": folder.number("normalize", 0),
        "max_length_ratio": folder.number("max-length-factor", 3),
        "suppress_ids": sorted({*unknown, *vocabulary.control_bytes()}),
    }


def open_folder(path: Path) -> MarianFolder:
    """Finds the files of a model.

    Args:
        path: Its folder, or its weight file.
    """
    folder = path if path.is_dir() else path.parent
    configurations = _named(folder, _DECODER)
    decoder = read_yaml(configurations[0].read_bytes(), str(configurations[0])) if configurations else {}
    where = configurations[0] if configurations else folder
    weights = _weights(folder, where, decoder) if path.is_dir() else path
    if weights.suffix == ZSTANDARD:
        raise CheckpointError(f"{weights} must be unpacked first: zstd -d --rm {folder}/*{ZSTANDARD}")
    sentencepiece = _named(folder, _SENTENCEPIECE)
    listed = _listed(folder, where, decoder, "vocabs") or _named(folder, _LIST) or sentencepiece
    vocabularies = _both_sides(where, listed)
    shortlist = _first(_listed(folder, where, decoder, "shortlist", count=1) or _named(folder, _SHORTLIST))
    information = next((folder / name for name in _INFORMATION if (folder / name).is_file()), None)
    is_list = not _SENTENCEPIECE.fullmatch(vocabularies[0].name)
    if is_list and not sentencepiece:
        raise refusal(folder, "vocabs", "SentencePiece models, or lists with such models", "lists alone")
    models = _both_sides(folder, sentencepiece) if is_list else vocabularies
    files = [weights, *vocabularies, *models, shortlist, information, *configurations[:1]]
    return MarianFolder(
        path=folder,
        weights=weights,
        vocabularies=vocabularies,
        sentencepiece=models,
        shortlist=shortlist,
        decoder=decoder,
        information=read_json(information) if information else {},
        files=list(dict.fromkeys(file for file in files if file)),
    )


def _weights(folder: Path, where: Path, decoder: Mapping[str, object]) -> Path:
    listed = _listed(folder, where, decoder, "models")
    candidates = [each for each in _named(folder, _WEIGHTS) if not _SHORTLIST.fullmatch(each.name)]
    # If none is recognised, reading the only candidate tells what is wrong with it.
    found = listed or [each for each in candidates if is_marian_file(each)] or candidates
    if len(found) != 1:
        raise refusal(where, "models", "one file of weights", [each.name for each in found])
    return found[0]


def _both_sides(where: Path, found: Sequence[Path]) -> tuple[Path, Path]:
    if not found:
        raise CheckpointError(f"{where}: the vocabulary is missing: put the model's *.spm beside its weights")
    if len(found) > 2:
        raise refusal(where, "vocabs", "one or two files", [each.name for each in found])
    # In the order of names, `source` comes before `target` and `src` before `trg`.
    return found[0], found[-1]


def _listed(
    folder: Path, where: Path, decoder: Mapping[str, object], field: str, count: int | None = None
) -> list[Path]:
    """Returns the files that the configuration lists in a field, looked for in the folder alone."""
    names = decoder.get(field, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names[:count]):
        raise refusal(where, field, "a list of files", names)
    return [_present(folder, where, field, name) for name in names[:count]]


def _present(folder: Path, where: Path, field: str, name: str) -> Path:
    paths = [folder / f"{Path(name).name}{suffix}" for suffix in ("", ".gz")]
    found = next((path for path in paths if path.is_file()), None)
    if found is None:
        raise refusal(where, field, "files of this folder", name)
    return found


def _named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    return sorted(each for each in folder.iterdir() if pattern.fullmatch(each.name) and each.is_file())


def _first(paths: Sequence[Path]) -> Path | None:
    return paths[0] if paths else None


def read_vocabulary(folder: MarianFolder, sizes: tuple[int, int]) -> MarianVocabulary:
    """Reads the vocabularies of a model.

    Args:
        folder: The model's files.
        sizes: Rows of the source's and the target's embedding.
    """
    is_list = not _SENTENCEPIECE.fullmatch(folder.vocabularies[0].name)
    paths = folder.sentencepiece if is_list else folder.vocabularies
    contents = [unpacked(path) for path in paths]
    processors = [load_sentencepiece(path, content) for path, content in zip(paths, contents, strict=True)]
    if is_list:
        source, target = (_pieces_of_list(path) for path in folder.vocabularies)
    else:
        source, target = map(pieces_of, processors)
    for path, pieces, size in zip(folder.vocabularies, (source, target), sizes, strict=True):
        if len(pieces) > size:
            raise refusal(path, "size", f"at most {size}, the rows of the embedding", len(pieces))
    ends, unknowns = (_common_id(folder, (source, target), piece) for piece in (_END, _UNKNOWN))
    names = (SHARED_FILE,) if paths[0] == paths[1] else (SOURCE_FILE, TARGET_FILE)
    return MarianVocabulary(
        pieces=(source, target),
        eos_id=ends,
        unk_id=unknowns,
        models=dict(zip(names, contents, strict=False)),
        is_list=is_list,
    )


def _pieces_of_list(path: Path) -> list[str]:
    values = read_yaml(unpacked(path), str(path), as_text=True)
    ids = {int(str(id_)): piece for piece, id_ in values.items() if str(id_).isdigit()}
    if len(values) != len(ids) or ids.keys() != set(range(len(ids))):
        raise refusal(path, "ids", f"the numbers from 0 to {len(values) - 1}", f"{len(ids)} different ones")
    return [ids[id_] for id_ in range(len(ids))]


def _common_id(folder: MarianFolder, sides: tuple[Sequence[str], Sequence[str]], piece: str) -> int:
    for path, pieces in zip(folder.vocabularies, sides, strict=True):
        if piece not in pieces:
            raise CheckpointError(f"{path} must have the piece {piece!r}")
    source, target = (pieces.index(piece) for pieces in sides)
    if source != target:
        raise refusal(folder.vocabularies[1], piece, f"id {source}, as on the source's side", target)
    return source
