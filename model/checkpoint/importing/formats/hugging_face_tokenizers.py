"""The tokenizer of a Hugging Face folder, by the files that it has.

source.spm, target.spm, vocab.json        Marian's: pieces numbered by the vocabulary
sentencepiece.bpe.model, vocab.json       M2M100's and SMaLL-100's: the same, then a tag for each language
sentencepiece.bpe.model                   fairseq's (NLLB, mBART): SentencePiece ids + 1, then the tags
spiece.model, or tokenizer.json           T5's: SentencePiece ids, then sentinels
"""

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.checkpoint.card import Pair, every_pair
from model.checkpoint.exporting import DESCRIPTION
from model.checkpoint.importing.reader import (
    Fields,
    ForeignText,
    Readme,
    chosen_pairs,
    language_tags,
    named_sides,
    refusal,
    used_tags,
)
from model.checkpoint.importing.vocabulary import filled, pieces_of, vocabulary_lists
from model.checkpoint.manifest import read_json
from model.errors import CheckpointError
from model.text.languages import bare_tag
from model.text.piece_models import load_sentencepiece
from model.text.tokenizer import (
    SHARED_FILE,
    SHARED_VOCABULARY,
    SOURCE_FILE,
    SOURCE_TAG,
    TARGET_FILE,
    TARGET_TAG,
    TokenizerSettings,
)

SETTINGS = "tokenizer_config.json"
_MARIAN = ("source.spm", "target.spm")
_FAIRSEQ, _T5 = "sentencepiece.bpe.model", "spiece.model"
_FILE_OF_FAMILY = {
    "marian": _MARIAN[0],
    "pegasus": _MARIAN[0],
    "m2m_100": _FAIRSEQ,
    "mbart": _FAIRSEQ,
    "t5": _T5,
    "mt5": _T5,
}
"""The file that a family's tokenizer is known by; with another one, its ids would be others."""
_UNIGRAM_FAMILIES = ("mbart", "t5", "mt5")
"""Families that are read from a tokenizer.json, too."""
_VOCABULARY = "vocab.json"
_SPECIALS = "special_tokens_map.json"
_FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
_M2M_LANGUAGES = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi
    hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns
    oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh
    zu
"""  # fmt: skip


_Frame = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""The pieces before a source, after it, and at the beginning of its translation."""
_BOTH_TAGS: _Frame = ([SOURCE_TAG], ["</s>"], [TARGET_TAG])
_LEGACY_NLLB: _Frame = ([], ["</s>", SOURCE_TAG], [TARGET_TAG])
_MBART_25: _Frame = ([], ["</s>", SOURCE_TAG], [])
_SMALL_100: _Frame = ([TARGET_TAG], ["</s>"], [])
_TOKENIZER = "tokenizer.json"
_UNIGRAM = 1
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """Properties of a model that its tokenizer must agree with.

    Attributes:
        folder: The model's folder.
        config: Fields of config.json.
        sizes: Rows of the source and of the target embedding.
        special_ids: Ids of `pad`, `bos` and `eos`.
        pair: The user's choice of languages.
        readme: What the README says.
    """

    folder: Path
    config: Fields
    sizes: tuple[int, int]
    special_ids: Mapping[str, int]
    pair: Pair | None
    readme: Readme

    def settings(self) -> Fields:
        """Returns the fields of tokenizer_config.json, which may be missing."""
        return Fields.read(self.folder / SETTINGS, {}, is_optional=True)


def read_tokenizer(facts: ModelFacts) -> ForeignText:
    """Reads the tokenizer of a folder."""
    folder, family = facts.folder, facts.config.text("model_type")
    needed = _FILE_OF_FAMILY[family]
    if not (folder / needed).is_file() and not (family in _UNIGRAM_FAMILIES and _has_unigram(folder)):
        others = present(folder, *_FILE_OF_FAMILY.values(), _TOKENIZER)
        found = f"; its {others[0].name} alone is not read for {family}" if others else ""
        raise CheckpointError(f"{folder} must hold {needed}{found}")
    if needed == _T5:
        return _t5(facts)
    if needed == _FAIRSEQ:
        is_m2m = family == "m2m_100" and (folder / _VOCABULARY).is_file()
        return _m2m(facts) if is_m2m else _fairseq(facts)
    own = Fields.read(folder / DESCRIPTION, {"space_after_marks": False}, is_optional=True)
    return _exported(facts, own) if own.get("prepare") == "dragoman" else _marian(facts)


def _marian(facts: ModelFacts) -> ForeignText:
    folder, settings = facts.folder, facts.settings()
    vocabulary = _ordered(folder / _VOCABULARY, read_json(folder / _VOCABULARY), facts.sizes[0])
    vocabularies = vocabulary_lists(vocabulary, vocabulary)
    files = [folder / name for name in (*_MARIAN, _VOCABULARY)]
    if settings.get("separate_vocabs"):
        files.append(folder / "target_vocab.json")
        targets = _ordered(files[-1], read_json(files[-1]), facts.sizes[1])
        vocabularies = vocabulary_lists(vocabulary, targets)
    elif facts.sizes[0] != facts.sizes[1]:
        raise refusal(settings.path, "separate_vocabs", "true for two sizes of vocabulary", False)
    tags = language_tags(piece for piece in vocabulary if bare_tag(piece))
    given = settings.text("source_lang"), settings.text("target_lang")
    source, target = named_sides(folder, *given, is_guessed=facts.pair is None)
    # A name such as `gmw-en` is of a group, whose languages the README lists.
    listed = facts.readme.sources
    sources = [source] if source and len(listed) < 2 else listed
    targets_known = list(tags) or ([target] if target else facts.readme.targets[:1])
    if tags and not sources and set(facts.readme.targets) <= set(tags):
        sources = list(tags)  # our own exports translate between all their languages
    unk = vocabulary.index("<unk>") if "<unk>" in vocabulary else None
    if unk is None:
        raise refusal(folder / _VOCABULARY, "<unk>", "a piece of the vocabulary", None)
    pairs = chosen_pairs(folder, every_pair(sources, targets_known), facts.pair, tags)
    return _foreign_text(
        facts,
        pairs,
        tags,
        unk,
        ([TARGET_TAG] if tags else [], [vocabulary[facts.special_ids["eos"]]], []),
        models=_models(files),
        vocabularies=vocabularies,
        files=files,
    )


def _foreign_text(
    facts: ModelFacts,
    pairs: Sequence[Pair],
    tags: Mapping[str, str],
    unk_id: int,
    frame: _Frame,
    *,
    models: Mapping[str, bytes | Path],
    vocabularies: Mapping[str, Sequence[str]],
    files: Sequence[Path],
) -> ForeignText:
    """Returns a tokenizer for text as typed, with the tags of the languages that are translated."""
    source_begin, source_end, target_begin = frame
    settings = TokenizerSettings(
        tags=used_tags(tags, pairs),
        special_ids={**facts.special_ids, "unk": unk_id},
        source_begin=source_begin,
        source_end=source_end,
        target_begin=target_begin,
        prepare="none",
    )
    return ForeignText(settings=settings, models=models, vocabularies=vocabularies, pairs=pairs, files=files)


def _exported(facts: ModelFacts, own: Fields) -> ForeignText:
    """Returns the tokenizer of an exported checkpoint of ours: the models' own ids, our preparation."""
    files = [facts.folder / name for name in _MARIAN]
    processor = load_sentencepiece(files[0])
    tags = own.text_by_name("language_tags")
    return ForeignText(
        settings=TokenizerSettings(
            tags=tags,
            lowercase=own.flag("lowercase"),
            separate_punctuation=own.flag("separate_punctuation"),
            space_after_marks=own.flag("space_after_marks"),
            special_ids={name: getattr(processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")},
        ),
        models=_models(files),
        vocabularies={},
        pairs=chosen_pairs(facts.folder, own.pairs("pairs"), facts.pair, tags),
        files=[*files, own.path],
    )


def _models(files: Sequence[Path]) -> dict[str, Path]:
    """Returns the models of both sides by our names: one if they are equal."""
    is_one = len({load_sentencepiece(path).serialized_model_proto() for path in files[:2]}) == 1
    return {SHARED_FILE: files[0]} if is_one else {SOURCE_FILE: files[0], TARGET_FILE: files[1]}


def _m2m(facts: ModelFacts) -> ForeignText:
    folder, settings = facts.folder, facts.settings()
    numbered = read_json(folder / _VOCABULARY)
    # transformers 5 does not save M2M100's languages.
    names = _languages(folder, [f"__{code}__" for code in _M2M_LANGUAGES.split()])
    pieces = _ordered(folder / _VOCABULARY, numbered, len(numbered))
    # The file may number the tags itself.
    pieces = [*pieces, *(name for name in names if name not in numbered)]
    files = [folder / _FAIRSEQ, folder / _VOCABULARY]
    is_small = "small100" in f"{settings.text('tokenizer_class')} {folder.name}".lower().replace("-", "")
    return _tagged(facts, pieces, names, _SMALL_100 if is_small else _BOTH_TAGS, files)


def _fairseq(facts: ModelFacts) -> ForeignText:
    folder, settings = facts.folder, facts.settings()
    path, model = _model(folder, _FAIRSEQ)
    names = _languages(folder)
    own = pieces_of(load_sentencepiece(path, model))
    # A tokenizer.json numbers all pieces itself.
    pieces = own if model else [*_FAIRSEQ_SPECIALS, *own[3:], *names, "<mask>"]
    is_old_mbart = settings.text("tokenizer_class").removesuffix("Fast") == "MBartTokenizer"
    frame = _MBART_25 if is_old_mbart else _LEGACY_NLLB if settings.get("legacy_behaviour") else _BOTH_TAGS
    found = _tagged(facts, pieces, names, frame, [path], model)
    if not is_old_mbart:
        return found
    targets = list(dict.fromkeys(target for _, target in found.pairs))
    if len(targets) > 1:
        raise CheckpointError(f"{folder} begins each translation with its language: name one with `--pair`")
    return replace(found, start_id=pieces.index(found.settings.tags[targets[0]]))


def _tagged(
    facts: ModelFacts,
    pieces: Sequence[str],
    names: Sequence[str],
    frame: _Frame,
    files: Sequence[Path],
    model: bytes | None = None,
) -> ForeignText:
    """Returns a tokenizer whose languages are the tags that it lists; the first file is its model."""
    tags = language_tags(names)
    return _foreign_text(
        facts,
        chosen_pairs(facts.folder, every_pair(tags, tags), facts.pair, tags),
        tags,
        pieces.index("<unk>"),
        frame,
        models={SHARED_FILE: model or files[0]},
        vocabularies={SHARED_VOCABULARY: _of_all_rows(facts, pieces)},
        files=[*files, *present(facts.folder, _SPECIALS)],
    )


def _t5(facts: ModelFacts) -> ForeignText:
    folder = facts.folder
    path, model = _model(folder, _T5)
    processor = load_sentencepiece(path, model)
    own = pieces_of(processor)
    tags = language_tags(piece for piece in own if bare_tag(piece))
    tasks = _tasks(facts.config)
    languages = facts.readme.sources or list(tags)
    known = every_pair(languages, tags) if tags else list(tasks)
    if len(known) > 1 and not tags and facts.pair is None:
        choices = ", ".join("-".join(each) for each in known)
        raise CheckpointError(f"{folder} names the task in the text: choose one with `--pair`, of {choices}")
    # A model that was trained further may keep the tasks of the first training.
    pairs = chosen_pairs(folder, known if tags or facts.pair is None else [], facts.pair, tags)
    text = "" if tags else tasks.get(pairs[0], "")
    prefix = [
        piece if piece in own else own[processor.unk_id()] for piece in processor.encode(text, out_type=str)
    ]
    return _foreign_text(
        facts,
        pairs,
        tags,
        processor.unk_id(),
        ([TARGET_TAG] if tags else prefix, [own[facts.special_ids["eos"]]], []),
        models={SHARED_FILE: model or path},
        vocabularies={SHARED_VOCABULARY: _of_all_rows(facts, own)},
        files=[path],
    )


def _tasks(config: Fields) -> dict[Pair, str]:
    """Returns the text before the source, by direction: T5's `translate English to French: `."""
    tasks = config.get("task_specific_params")
    found: dict[Pair, str] = {}
    for name, values in tasks.items() if isinstance(tasks, dict) else ():
        kind, _, languages = name.partition("_")
        source, _, target = languages.partition("_to_")
        prefix = values.get("prefix") if isinstance(values, dict) else None
        if kind == "translation" and source and target and isinstance(prefix, str):
            found[source, target] = prefix
    return found


def _languages(folder: Path, default: Sequence[str] = ()) -> list[str]:
    """Returns the pieces of languages in the order of their ids."""
    for name in (SETTINGS, _SPECIALS):
        values = read_json(folder / name) if (folder / name).is_file() else {}
        for field_name in ("additional_special_tokens", "extra_special_tokens"):
            listed = values.get(field_name)
            if isinstance(listed, list) and listed:
                pieces = [each.get("content") if isinstance(each, dict) else each for each in listed]
                return [piece for piece in pieces if isinstance(piece, str)]
    if default:
        return list(default)
    raise refusal(folder / _SPECIALS, "additional_special_tokens", "the languages in the order of ids", None)


def _ordered(path: Path, numbered: Mapping[str, object], rows: int) -> list[str]:
    """Returns pieces by id; ids without a piece get a placeholder."""
    pieces: list[str | None] = [None] * rows
    for piece, id_ in numbered.items():
        if type(id_) is not int or not 0 <= id_ < rows or pieces[id_] is not None:
            raise refusal(path, piece, f"an id of its own below {rows}", id_)
        pieces[id_] = piece
    return [f"<unused{id_}>" if piece is None else piece for id_, piece in enumerate(pieces)]


def _of_all_rows(facts: ModelFacts, pieces: Sequence[str]) -> list[str]:
    """Returns as many pieces as the network has rows."""
    rows = facts.sizes[0]
    if len(pieces) > rows:
        requirement = f"at least {len(pieces)}, as the tokenizer has"
        raise refusal(facts.config.path, "vocab_size", requirement, rows)
    return filled(pieces, rows)


def present(folder: Path, *names: str) -> list[Path]:
    """Returns those of a folder's files that are there."""
    return [folder / name for name in names if (folder / name).is_file()]


def _model(folder: Path, name: str) -> tuple[Path, bytes | None]:
    """Returns the file that holds the model, and the model itself if that file is a tokenizer.json."""
    if (folder / name).is_file():
        return folder / name, None
    return folder / _TOKENIZER, _sentencepiece_model(folder / _TOKENIZER)


def _has_unigram(folder: Path) -> bool:
    """Returns whether a folder has a `tokenizer.json` with a unigram model."""
    path = folder / _TOKENIZER
    model = read_json(path).get("model") if path.is_file() else None
    return isinstance(model, Mapping) and model.get("type") == "Unigram"


def _sentencepiece_model(path: Path) -> bytes:
    """Returns a SentencePiece model with the pieces, scores and normalisation of a unigram tokenizer."""
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
        fields = [_bytes_field(1, text), b"\x15", struct.pack("<f", score), _integer_field(3, kind)]
        pieces.append(_bytes_field(1, b"".join(fields)))
    normaliser = _bytes_field(2, _charsmap(path, content.get("normalizer"))) + b"".join(
        _integer_field(field, 1)
        for field in (3, 4, 5)  # a space first, no repeated spaces, spaces as U+2581
    )
    return b"".join(pieces) + _bytes_field(2, _integer_field(3, _UNIGRAM)) + _bytes_field(3, normaliser)


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


def _bytes_field(number: int, content: bytes) -> bytes:
    """Returns a field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _integer_field(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + _varint(value >> 7)
