"""③ Token ids of a sentence; ⑥ ⑦ and text from token ids.

A folder holds `tokenizer.model` (one for both sides) or `source.model` and `target.model`, all SentencePiece
models, and `tokenizer.json` (TokenizerSettings). Ids are the models', or those of `vocabulary.json` (or
`source.vocabulary.json` and `target.vocabulary.json`): a JSON list with the piece of every id. Text never
produces a special id or a language tag: `</s>` or `<2fr>` typed by a user is text.
"""

import json
import shutil
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, Self, get_args

from model.errors import TokenizerError, UnsupportedLanguageError
from model.text.languages import UNSPACED
from model.text.normalisation import (
    SPACE,
    clean,
    nfkc_fallback,
    no_space_after_marks,
    separate_punctuation,
    space_after_marks,
    without_controls,
)
from model.text.piece_models import (
    SPECIAL_NAMES,
    CharacterModel,
    MosesWords,
    PieceModel,
    SentencePieceModel,
    SubwordNmtModel,
)

SETTINGS_FILE = "tokenizer.json"
FORMAT_VERSION = 1
SHARED_FILE = "tokenizer.model"
SOURCE_FILE = "source.model"
TARGET_FILE = "target.model"
SHARED_VOCABULARY = "vocabulary.json"
SOURCE_VOCABULARY = "source.vocabulary.json"
TARGET_VOCABULARY = "target.vocabulary.json"
TOKENIZER_FILES = (
    SETTINGS_FILE,
    SHARED_FILE,
    SOURCE_FILE,
    TARGET_FILE,
    SHARED_VOCABULARY,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
)
"""All files of a tokenizer; fingerprints of training data hash them in this order."""

SOURCE_TAG = "{source}"
TARGET_TAG = "{target}"
_FLAGS = ("lowercase", "separate_punctuation", "space_after_marks")
_LISTS = ("source_begin", "source_end", "target_begin", "moses_languages")
_ALWAYS_WRITTEN = ("tags", "lowercase", "separate_punctuation")
Preparation = Literal["dragoman", "none"]
Pieces = Literal["sentencepiece", "characters", "subword_nmt"]


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How sentences become ids: preparation of the text, and the ids around its pieces.

    The parts of a frame are pieces of the vocabulary, or `{source}` or `{target}`: the tag of that language,
    which is nothing if there are no tags.

    Attributes:
        tags: Piece that selects a language, by language code; empty for a model of one direction.
        lowercase: Whether all text is lower-cased.
        separate_punctuation: Whether punctuation marks are separate words (word-level models).
        space_after_marks: Whether the network reads and writes a space between an opening bracket or
            quotation mark, a slash or a dash and the word that follows.
        special_ids: Ids of `pad`, `bos`, `eos` and `unk`; those missing are the SentencePiece model's.
        source_begin: Frame before the pieces of a source.
        source_end: Frame after them.
        target_begin: Frame with which the decoder is made to begin every translation.
        prepare: `dragoman`: `clean`, characters of the vocabulary, casing of sentences in capitals;
            `none`: the text as typed without control characters, for models of other projects.
        pieces: What cuts the text: `sentencepiece`; `characters`, which need no model file;
            `subword_nmt`, whose model files are lists of merges. The last two need vocabularies.
        moses_languages: Source and target language by whose rules of Moses `subword_nmt` finds words, as
            OPUS-MT's older models need; none splits at white space.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    lowercase: bool = False
    separate_punctuation: bool = False
    space_after_marks: bool = False
    special_ids: Mapping[str, int] = field(default_factory=dict)
    source_begin: Sequence[str] = (TARGET_TAG,)
    source_end: Sequence[str] = ("</s>",)
    target_begin: Sequence[str] = ()
    prepare: Preparation = "dragoman"
    pieces: Pieces = "sentencepiece"
    moses_languages: Sequence[str] = ()

    def __post_init__(self) -> None:
        _require("tags", _maps_text(self.tags, str), "must map language codes to pieces", self.tags)
        are_ids = _maps_text(self.special_ids, int) and self.special_ids.keys() <= {*SPECIAL_NAMES}
        are_ids = are_ids and all(id_ >= 0 for id_ in self.special_ids.values())
        names = ", ".join(SPECIAL_NAMES)
        _require("special_ids", are_ids, f"must map {names} to ids", self.special_ids)
        for name in _FLAGS:
            value = getattr(self, name)
            _require(name, isinstance(value, bool), "must be true or false", value)
        for name in _LISTS:
            parts = getattr(self, name)
            are_pieces = isinstance(parts, list | tuple) and all(isinstance(each, str) for each in parts)
            _require(name, are_pieces, "must be a list of texts", parts)
            object.__setattr__(self, name, tuple(parts))
        are_two = len(self.moses_languages) in (0, 2)
        _require("moses_languages", are_two, "must be a source and a target", self.moses_languages)
        for name, kind in (("prepare", Preparation), ("pieces", Pieces)):
            choices = get_args(kind)
            value = getattr(self, name)
            _require(name, value in choices, f"must be one of {', '.join(choices)}", value)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads `tokenizer.json`.

        Raises:
            TokenizerError: If the file is missing, not JSON, of another format or has an invalid value.
        """
        values = _read_json_object(folder / SETTINGS_FILE)
        version = values.pop("format_version", None)
        if version != FORMAT_VERSION:
            raise TokenizerError(f"{SETTINGS_FILE}: `format_version` must be {FORMAT_VERSION}: {version!r}")
        unknown = values.keys() - {setting.name for setting in fields(cls)}
        if unknown:
            raise TokenizerError(f"{SETTINGS_FILE}: unknown setting {min(unknown)!r}")
        return cls(**values)  # type: ignore[arg-type]

    def save(self, folder: Path) -> None:
        """Writes `tokenizer.json` into an existing folder."""
        default = type(self)()
        values = {"format_version": FORMAT_VERSION} | {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
            if name in _ALWAYS_WRITTEN or value != getattr(default, name)
        }
        text = json.dumps(values, ensure_ascii=False, indent=2)
        (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")

    @property
    def is_imported(self) -> bool:
        """Returns whether the model that cuts text is another project's, and prepares all text itself."""
        return self.prepare != "dragoman"

    def prepared(self, text: str, *, is_clean: bool = False) -> str:
        """Returns a sentence as the model that cuts it reads it.

        A typed U+2581 becomes an underscore, which looks alike: SentencePiece marks spaces with U+2581.

        Args:
            text: Any Unicode text.
            is_clean: Whether `clean` has been applied to the text.
        """
        if self.is_imported:
            return without_controls(text)
        text = (text if is_clean else clean(text)).replace(SPACE, "_")
        if self.lowercase:
            text = text.lower()
        if self.space_after_marks:
            text = space_after_marks(text)
        return separate_punctuation(text) if self.separate_punctuation else text


def language_tags(codes: Iterable[str]) -> dict[str, str]:
    """Returns the tag of each language, to become a control symbol: `{"fr": "<2fr>"}`."""
    return {code: f"<2{code}>" for code in codes}


class Tokenizer:
    """The vocabularies of both sides, and how text is prepared for them; thread-safe.

    Attributes:
        source: Pieces and ids of sources.
        target: Pieces and ids of targets.
        settings: How text is prepared, and the frames of sentences.
        source_vocab_size: Number of source ids, special ids included.
        target_vocab_size: Number of target ids, special ids included.
        pad_id: Id of padding, on both sides.
        bos_id: Id of the beginning of a sentence, on both sides.
        eos_id: Id of the end of a sentence, on both sides.
        unk_id: Id of unknown pieces, on both sides.
        is_shared: Whether both sides use one vocabulary.
        model_files: File names of the source and the target model, the same twice for a shared one.
        language_tags: Source id that selects a language, by language code; empty for a model of one
            direction.
    """

    def __init__(
        self, source: PieceModel, target: PieceModel, settings: TokenizerSettings, *, is_shared: bool
    ) -> None:
        """Joins two sides, the same object twice for a shared model.

        Raises:
            TokenizerError: If the sides disagree about a special id, or a tag or a frame's piece is missing.
        """
        for name, left, right in zip(SPECIAL_NAMES, source.special_ids, target.special_ids, strict=True):
            if left != right:
                raise TokenizerError(
                    f"{source.name} and {target.name} must agree on the {name} id: {left} and {right}"
                )
        self.source, self.target, self.settings = source, target, settings
        self.source_vocab_size, self.target_vocab_size = source.size, target.size
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = source.special_ids
        self.is_shared = is_shared
        self.model_files = (source.name, target.name)
        sources, tags = (settings.source_begin, settings.source_end), settings.tags
        ids = _ids(source, [*sources, (TARGET_TAG,)], settings)
        self._source_begin, self._source_end = (_Frame(parts, ids, tags) for parts in sources)
        self.language_tags = {code: ids[piece] for code, piece in tags.items()}
        ids = _ids(target, [settings.target_begin], settings)
        self._target_begin = _Frame(settings.target_begin, ids, tags)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a tokenizer's files.

        Raises:
            TokenizerError: If a file is missing, not a tokenizer's file, or contradicts another.
        """
        folder = Path(folder)
        settings = TokenizerSettings.load(folder)
        files = _both_sides(folder, SHARED_FILE, SOURCE_FILE, TARGET_FILE)
        vocabularies = _both_sides(folder, SHARED_VOCABULARY, SOURCE_VOCABULARY, TARGET_VOCABULARY)
        if files is None and settings.pieces == "characters":
            files = vocabularies
        if files is None:
            raise TokenizerError(f"{folder} must hold {SHARED_FILE}, or {SOURCE_FILE} and {TARGET_FILE}")
        lists = {name: _read_vocabulary(folder / name) for name in dict.fromkeys(vocabularies or ())}
        languages = settings.moses_languages or (None, None)
        kinds = list(zip(files, vocabularies or (None, None), languages, strict=True))
        sides = {
            kind: _side(folder / kind[0], lists.get(kind[1] or ""), settings, kind[2])
            for kind in dict.fromkeys(kinds)
        }
        source, target = (sides[kind] for kind in kinds)
        is_shared = len(set(vocabularies or files)) == 1
        return cls(source, target, settings, is_shared=is_shared)

    @property
    def target_tag_ids(self) -> tuple[int, ...]:
        """Language tags among the target ids, which no translation may hold.

        There are none if the sides differ. Models of other projects may produce their tags.
        """
        suppressed = self.is_shared and not self.settings.is_imported
        return tuple(self.language_tags.values()) if suppressed else ()

    @property
    def word_parts(self) -> bytes:
        """Which target ids continue a word (PieceModel.word_parts)."""
        return self.target.word_parts

    def encode(
        self,
        text: str,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        is_clean: bool = False,
    ) -> list[int]:
        """Returns the ids of a source sentence, ready for the network: [tag], pieces, EOS, or other frames.

        Args:
            text: Any Unicode text.
            source_language: Needed if a frame of the source has its tag, ignored otherwise.
            target_language: The same for the target language.
            is_clean: Whether `clean` has been applied to the text.

        Raises:
            UnsupportedLanguageError: If a frame has the tag of a language, but this one has no tag.
        """
        return [
            *self._source_begin.ids(source_language, target_language),
            *self.source.encode(self._readable(text, is_clean)),
            *self._source_end.ids(source_language, target_language),
        ]

    def target_prefix(self, source_language: str | None, target_language: str | None) -> tuple[int, ...]:
        """Returns the ids with which the decoder is made to begin every translation; they are no text.

        Raises:
            UnsupportedLanguageError: If the frame has the tag of a language, but this one has no tag.
        """
        return self._target_begin.ids(source_language, target_language)

    def reads_otherwise(self, text: str) -> bool:
        """Returns whether the text is tokenised from other characters as a source than as a target."""
        return self._readable(text) != self.settings.prepared(text)

    def can_spell(self, ids: Sequence[int]) -> bool:
        """Returns whether the ids from `encode` mostly stand for text that the vocabulary knows.

        They do not if, for example, the vocabulary lacks the alphabet (SentencePieceModel.is_mostly_foreign).
        """
        return not self.source.is_mostly_foreign(ids)

    def encode_target(self, text: str) -> list[int]:
        """Returns the ids of a target sentence: pieces, EOS."""
        return [*self.target.encode(self.settings.prepared(text)), self.eos_id]

    def encode_batch(
        self, texts: Sequence[str], *, source_language: str | None = None, target_language: str | None = None
    ) -> list[list[int]]:
        """Encodes many source sentences on several threads.

        Raises:
            UnsupportedLanguageError: If a frame has the tag of a language, but this one has no tag.
        """
        begin = self._source_begin.ids(source_language, target_language)
        end = self._source_end.ids(source_language, target_language)
        pieces = self.source.encode_batch([self._readable(text) for text in texts])
        return [[*begin, *ids, *end] for ids in pieces]

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many target sentences on several threads."""
        pieces = self.target.encode_batch([self.settings.prepared(text) for text in texts])
        return [[*ids, self.eos_id] for ids in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids, without special ids, the unknown piece included.

        Bytes that are not a character are left out. The text has no control characters.

        Raises:
            TokenizerError: If an id is outside the vocabulary.
        """
        text = self.target.decode(ids)
        return no_space_after_marks(text) if self.settings.space_after_marks else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the target pieces of ids, special ones included."""
        return self.target.pieces(ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the source pieces of ids, special ones included."""
        return self.source.pieces(ids)

    def _readable(self, text: str, is_clean: bool = False) -> str:
        """Returns a source sentence in characters of the vocabulary, where they can spell it."""
        text = self.settings.prepared(text, is_clean=is_clean)
        return text if self.settings.is_imported else nfkc_fallback(text, self.source.characters)


class _Frame:
    """The ids before or after the pieces of a sentence.

    Args:
        parts: Pieces, and names of tags.
        ids: The id of every piece and tag.
        tags: Piece of each language.
    """

    def __init__(self, parts: Sequence[str], ids: Mapping[str, int], tags: Mapping[str, str]) -> None:
        self._tags = {code: ids[piece] for code, piece in tags.items() if piece in ids}
        kept = [part for part in parts if tags or part not in (SOURCE_TAG, TARGET_TAG)]
        self._parts = [part if part in (SOURCE_TAG, TARGET_TAG) else ids[part] for part in kept]

    def ids(self, source_language: str | None, target_language: str | None) -> tuple[int, ...]:
        """Returns the ids for a pair of languages.

        Raises:
            UnsupportedLanguageError: If the frame needs the tag of a language that has none.
        """
        languages = {SOURCE_TAG: source_language, TARGET_TAG: target_language}
        return tuple(
            part if isinstance(part, int) else self._tag(part, languages[part]) for part in self._parts
        )

    def _tag(self, part: str, language: str | None) -> int:
        tag = self._tags.get(language or "")
        if tag is None:
            raise UnsupportedLanguageError(part[1:-1], language or "", self._tags)
        return tag


def _ids(model: PieceModel, frames: Iterable[Sequence[str]], settings: TokenizerSettings) -> dict[str, int]:
    """Returns the ids of the pieces in frames, and of the tags if a frame has one.

    Raises:
        TokenizerError: If the vocabulary lacks a piece or a tag.
    """
    parts = {part for frame in frames for part in frame}
    tags = set(settings.tags.values()) if parts & {SOURCE_TAG, TARGET_TAG} else set()
    if isinstance(model, SentencePieceModel) and not settings.is_imported:
        for tag in tags:
            model.require_control(tag)
    wanted = parts - {SOURCE_TAG, TARGET_TAG} | tags
    ids = {"</s>": model.eos_id} | model.ids_of(wanted)
    if missing := wanted - ids.keys():
        raise TokenizerError(f"{model.name} must have {min(missing)!r}, a piece that {SETTINGS_FILE} names")
    return ids


def write_tokenizer(
    folder: Path,
    settings: TokenizerSettings,
    *,
    models: Mapping[str, bytes | Path],
    vocabularies: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes a tokenizer's files into an existing folder.

    Args:
        folder: The folder.
        settings: How text is prepared, and the frames of sentences.
        models: Content or path of each model file: `tokenizer.model`, or `source.model` and `target.model`.
        vocabularies: The piece of every id: `vocabulary.json`, or `source.vocabulary.json` and
            `target.vocabulary.json`; none if ids are the models'.

    Raises:
        TokenizerError: If a name is none of these.
    """
    for name in (*models, *(vocabularies or {})):
        if name not in TOKENIZER_FILES[1:]:
            raise TokenizerError(f"a tokenizer's file must be one of {', '.join(TOKENIZER_FILES)}: {name!r}")
    settings.save(folder)
    for name, content in models.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    for name, pieces in (vocabularies or {}).items():
        (folder / name).write_text(json.dumps(list(pieces), ensure_ascii=False), encoding="utf-8")


def copy_tokenizer(origin: Path, folder: Path) -> None:
    """Copies a tokenizer's files into an existing folder."""
    for name in TOKENIZER_FILES:
        if (origin / name).exists():
            shutil.copyfile(origin / name, folder / name)


def _side(
    path: Path, vocabulary: Sequence[str] | None, settings: TokenizerSettings, moses_language: str | None
) -> PieceModel:
    tags = settings.tags.values()
    if settings.pieces == "sentencepiece":
        is_imported = settings.is_imported
        return SentencePieceModel(path, vocabulary, settings.special_ids, tags=tags, is_imported=is_imported)
    if vocabulary is None:
        raise TokenizerError(f"{path} needs {SHARED_VOCABULARY}, or a vocabulary for each side")
    if settings.pieces == "characters":
        return CharacterModel(path.name, vocabulary, settings.special_ids, tags)
    words = MosesWords(moses_language) if moses_language else None
    return SubwordNmtModel(path, vocabulary, settings.special_ids, tags, words)


def _both_sides(folder: Path, shared: str, source: str, target: str) -> tuple[str, str] | None:
    """Returns the names of the source's and the target's file; None if the folder has neither kind."""
    if (folder / shared).exists():
        return shared, shared
    return (source, target) if (folder / source).exists() else None


def _read_vocabulary(path: Path) -> list[str]:
    pieces = _read_json(path)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise TokenizerError(f"{path} must hold a list of pieces")
    return pieces


def _read_json_object(path: Path) -> dict[str, object]:
    values = _read_json(path)
    if not isinstance(values, dict):
        raise TokenizerError(f"{path} must hold a JSON object")
    return values


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from error


def _maps_text(values: object, kind: type) -> bool:
    """Returns whether an object maps texts to values of a type; neither may be an empty text."""
    return isinstance(values, Mapping) and all(
        isinstance(key, str) and key and type(value) is kind and value != "" for key, value in values.items()
    )


def _require(name: str, fits: bool, requirement: str, value: object) -> None:
    if not fits:
        raise TokenizerError(f"{SETTINGS_FILE}: `{name}` {requirement}: {value!r}")


def stable_prefix(text: str) -> str:
    """Returns the part of a text that no further token can change: all before its last word.

    Args:
        text: Text that `Tokenizer.decode` returns for the first tokens of a translation. The next token may
            continue the last word and the last character (a combining mark, further bytes).
    """
    for position in range(len(text) - 1, 0, -1):
        character = text[position]
        if character.isspace() or (UNSPACED.match(character) and not _joins(character)):
            return text[:position].rstrip()
    return ""


def _joins(character: str) -> bool:
    """Returns whether a character combines with the one before it."""
    return unicodedata.category(character).startswith("M")
