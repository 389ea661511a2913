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
    Fields,
    ForeignModel,
    ForeignText,
    card_name,
    chosen_pairs,
    language_tags,
    refusal,
)
from model.checkpoint.importing.vocabulary import filled, pieces_of, vocabulary_lists
from model.checkpoint.manifest import read_json
from model.errors import CheckpointError
from model.text.languages import LANGUAGE_NAMES, SHORT_CODES, bare_tag, canonical_code
from model.text.piece_models import load_sentencepiece
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


_DECODING: Mapping[str, object] = {
    "allow-unk": False,
    "beam-size": 1,
    "max-length-factor": 3,
    "models": [],
    "normalize": 0,
    "shortlist": [],
    "vocabs": [],
    "word-penalty": 0,
}
"""What the decoder's configuration is read for, with Marian's defaults."""


@dataclass(frozen=True, kw_only=True)
class _Files:
    """The files of a model.

    Attributes:
        folder: Their folder.
        weights: File of the weights.
        vocabularies: SentencePiece models or lists of both sides; the same twice if shared.
        sentencepiece: The SentencePiece models of both sides.
        shortlist: File of the shortlist.
        decoder: The decoder's configuration.
        information: Content of `model_info.json` or `metadata.json`; empty if there is none.
        all: All of these files.
    """

    folder: Path
    weights: Path
    vocabularies: tuple[Path, Path]
    sentencepiece: tuple[Path, Path]
    shortlist: Path | None
    decoder: Fields
    information: Mapping[str, object]
    all: Sequence[Path]


def recognises(path: Path) -> bool:
    """Returns whether a path is Marian's weight file, or a folder with one.

    Raises:
        CheckpointError: If the files of a folder have Marian's names, but the weights are damaged.
    """
    if not path.is_dir():
        return path.is_file() and _WEIGHTS.fullmatch(path.name) is not None and is_marian_file(path)
    candidates = _candidates(path)
    if any(map(is_marian_file, candidates)):
        return True
    if candidates and _named(path, _SENTENCEPIECE) and not (path / "config.json").exists():
        raise CheckpointError(f"{candidates[0]} is not a Marian model, or is truncated")
    return False


def read(path: Path, pair: Pair | None) -> ForeignModel:
    """Reads a Transformer whose decoder has self-attention or SSRU cells."""
    files = _find(path)
    network = MarianNetwork(MarianFile(files.weights))
    is_list, contents, pieces = _read_vocabularies(files, (network.source_size, network.target_size))
    unk_id = _common_id(files, pieces, _UNKNOWN)
    config = network.config(_common_id(files, pieces, _END), unk_id)
    tags = language_tags(piece for piece in pieces[0] if bare_tag(piece))
    source, target = _languages(files, tags, pair)
    rows = config.bos_id
    has_own_ids = not is_list and all(len(side) == rows for side in pieces)
    names = (SHARED_FILE,) if files.sentencepiece[0] == files.sentencepiece[1] else (SOURCE_FILE, TARGET_FILE)
    is_firefox = _FIREFOX.fullmatch(files.weights.name) is not None
    return ForeignModel(
        config=config,
        tensors=network.tensors(config),
        text=ForeignText(
            settings=TokenizerSettings(
                special_ids={name: getattr(config, f"{name}_id") for name in ("pad", "bos", "eos", "unk")},
                prepare="none",
                tags={target: tags[target]} if tags else {},
            ),
            models=dict(zip(names, contents, strict=False)),
            vocabularies={} if has_own_ids else vocabulary_lists(*(filled(side, rows) for side in pieces)),
            pairs=[(source, target)],
        ),
        name=card_name(files.information.get("shortName"), files.folder.resolve().name, default="marian"),
        max_source_length=config.max_positions,
        max_target_length=config.max_positions,
        decoding=_decoding(files.decoder, pieces[1], unk_id),
        licence=_FIREFOX_LICENCE if is_firefox else "",
        shortlist=read_marian_shortlist(files.shortlist, config) if files.shortlist else None,
        files=files.all,
        origin={"release": network.version, "information": dict(files.information)},
    )


def _decoding(fields: Fields, pieces: Sequence[str], unk_id: int) -> Mapping[str, object]:
    """Returns the options of the decoder's configuration.

    Marian never produces control characters, nor `<unk>` unless told to.
    """
    if fields.number("word-penalty"):
        raise fields.refusal("word-penalty", "0")
    beam_size = int(fields.number("beam-size"))
    suppressed = {id_ for id_, piece in enumerate(pieces) if piece in _CONTROL_BYTES}
    # Marian's beam ends with its last hypothesis, but gets narrower by each that has finished.
    beam = {"strategy": "beam", "beam_size": beam_size, "stop": "count"}
    return {
        **(beam if beam_size > 1 else {"strategy": "greedy"}),
        "length_penalty": fields.number("normalize"),
        "max_length_ratio": fields.number("max-length-factor"),
        "suppress_ids": sorted(suppressed if fields.get("allow-unk") is True else {*suppressed, unk_id}),
    }


def _languages(files: _Files, tags: Mapping[str, str], pair: Pair | None) -> Pair:
    """Returns the requested languages, or those of the model; the target must have a tag if any has.

    Args:
        files: The files of the model.
        tags: The pieces that name a target, by language.
        pair: The requested languages.
    """
    known = [] if pair and tags else _pairs(files, is_guessed=pair is None)
    ((source, target),) = chosen_pairs(files.folder, known, pair, tags)
    if tags and target not in tags:
        raise CheckpointError(
            f"the model translates into {', '.join(sorted(tags))}: choose one, as in --pair en-{min(tags)}"
        )
    return source, target


def _pairs(files: _Files, *, is_guessed: bool) -> list[Pair]:
    """Returns the languages that the files tell or, if they may be guessed, the name of the folder."""
    names = (files.weights.name, *(path.name for path in files.vocabularies))
    found = _pair_of_information(files.information) or _pair_of_names(_LANGUAGES_IN_FILES, names)
    if found is None and is_guessed:
        found = _pair_of_names(_LANGUAGES_IN_FOLDERS, [files.folder.resolve().name])
    return [found] if found else []


def _pair_of_information(information: Mapping[str, object]) -> Pair | None:
    codes = {name: code for code, name in LANGUAGE_NAMES.items()}
    for source, target in (("src", "trg"), ("sourceLanguage", "targetLanguage")):
        named = information.get(source), information.get(target)
        known = [codes.get(name, name) for name in named if isinstance(name, str)]
        if len(known) == 2 and all(canonical_code(code) in LANGUAGE_NAMES for code in known):
            return known[0], known[1]
    return None


def _pair_of_names(pattern: re.Pattern[str], names: Sequence[str]) -> Pair | None:
    for match in filter(None, map(pattern.search, names)):
        source, target = (SHORT_CODES.get(code, code) for code in match.groups() if code)
        if {canonical_code(source), canonical_code(target)} <= LANGUAGE_NAMES.keys() and source != target:
            return source, target
    return None


def _find(path: Path) -> _Files:
    """Finds the files of a model, by its folder or its weight file."""
    folder = path if path.is_dir() else path.parent
    configurations = _named(folder, _DECODER)[:1]
    where = configurations[0] if configurations else folder
    content = read_yaml(where.read_bytes(), str(where)) if configurations else {}
    decoder = Fields(where, content, _DECODING)
    weights = _weights(folder, decoder) if path.is_dir() else path
    if weights.suffix == ZSTANDARD:
        raise CheckpointError(f"{weights} must be unpacked first: zstd -d --rm {folder}/*{ZSTANDARD}")
    sentencepiece = _named(folder, _SENTENCEPIECE)
    listed = _listed(folder, decoder, "vocabs") or _named(folder, _LIST) or sentencepiece
    vocabularies = _both_sides(where, listed)
    if not _SENTENCEPIECE.fullmatch(vocabularies[0].name):
        if not sentencepiece:
            raise refusal(folder, "vocabs", "SentencePiece models, or lists with such models", "lists alone")
        listed = sentencepiece
    models = _both_sides(folder, listed)
    # The decoder's `shortlist` is a file and its options.
    shortlists = _listed(folder, decoder, "shortlist", count=1) or _named(folder, _SHORTLIST)
    information = [folder / name for name in _INFORMATION if (folder / name).is_file()][:1]
    files = [weights, *vocabularies, *models, *shortlists[:1], *information, *configurations]
    return _Files(
        folder=folder,
        weights=weights,
        vocabularies=vocabularies,
        sentencepiece=models,
        shortlist=shortlists[0] if shortlists else None,
        decoder=decoder,
        information=read_json(information[0]) if information else {},
        all=list(dict.fromkeys(files)),
    )


def _weights(folder: Path, decoder: Fields) -> Path:
    candidates = _candidates(folder)
    # If none is recognised, reading the only candidate tells what is wrong with it.
    found = _listed(folder, decoder, "models") or list(filter(is_marian_file, candidates)) or candidates
    if len(found) != 1:
        raise refusal(decoder.path, "models", "one file of weights", [each.name for each in found])
    return found[0]


def _candidates(folder: Path) -> list[Path]:
    return [each for each in _named(folder, _WEIGHTS) if not _SHORTLIST.fullmatch(each.name)]


def _both_sides(where: Path, found: Sequence[Path]) -> tuple[Path, Path]:
    if not found:
        raise CheckpointError(f"{where}: the vocabulary is missing: put the model's *.spm beside its weights")
    if len(found) > 2:
        raise refusal(where, "vocabs", "one or two files", [each.name for each in found])
    # In the order of names, `source` comes before `target` and `src` before `trg`.
    return found[0], found[-1]


def _listed(folder: Path, decoder: Fields, field: str, count: int | None = None) -> list[Path]:
    """Returns the files that the configuration lists in a field, looked for in the folder alone."""
    names = decoder.get(field)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names[:count]):
        raise decoder.refusal(field, "a list of files")
    found = []
    for name in names[:count]:
        paths = [folder / f"{Path(name).name}{suffix}" for suffix in ("", ".gz")]
        found += [path for path in paths if path.is_file()][:1]
        if not any(path.is_file() for path in paths):
            raise refusal(decoder.path, field, "files of this folder", name)
    return found


def _named(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    return sorted(each for each in folder.iterdir() if pattern.fullmatch(each.name) and each.is_file())


def _read_vocabularies(
    files: _Files, sizes: tuple[int, int]
) -> tuple[bool, Sequence[bytes], tuple[Sequence[str], Sequence[str]]]:
    """Reads the vocabularies of both sides, for embeddings of so many rows.

    Returns:
        Whether ids are those of lists, instead of those of the SentencePiece models; the content of these
        models; and the pieces of the source and of the target, by id.
    """
    contents = [unpacked(path) for path in files.sentencepiece]
    processors = map(load_sentencepiece, files.sentencepiece, contents)
    own, other = map(pieces_of, processors)
    if is_list := files.vocabularies != files.sentencepiece:
        own, other = map(_pieces_of_list, files.vocabularies)
    for path, pieces, size in zip(files.vocabularies, (own, other), sizes, strict=True):
        if len(pieces) > size:
            raise refusal(path, "size", f"at most {size}, the rows of the embedding", len(pieces))
    return is_list, contents, (own, other)


def _pieces_of_list(path: Path) -> list[str]:
    values = read_yaml(unpacked(path), str(path), as_text=True)
    ids = {int(str(id_)): piece for piece, id_ in values.items() if str(id_).isdigit()}
    if len(values) != len(ids) or ids.keys() != set(range(len(ids))):
        raise refusal(path, "ids", f"the numbers from 0 to {len(values) - 1}", f"{len(ids)} different ones")
    return [ids[id_] for id_ in range(len(ids))]


def _common_id(files: _Files, sides: tuple[Sequence[str], Sequence[str]], piece: str) -> int:
    for path, pieces in zip(files.vocabularies, sides, strict=True):
        if piece not in pieces:
            raise CheckpointError(f"{path} must have the piece {piece!r}")
    source, target = (pieces.index(piece) for pieces in sides)
    if source != target:
        raise refusal(files.vocabularies[1], piece, f"id {source}, as on the source's side", target)
    return source
