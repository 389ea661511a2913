"""③ Token ids of a sentence; ⑥ ⑦ and text from token ids.

A folder holds `tokenizer.model` (one vocabulary for both sides) or `source.model` and `target.model`, all
SentencePiece models, and `tokenizer.json` (TokenizerSettings). The model files define the special ids. Text
never produces a special id: `</s>` or `<2fr>` typed by a user is text.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from model.errors import TokenizerError, UnsupportedLanguageError
from model.text.normalisation import clean, nfkc_fallback, separate_punctuation
from model.text.sentencepiece_model import SPECIAL_NAMES, SentencePieceModel

SETTINGS_FILE = "tokenizer.json"
FORMAT_VERSION = 1
SHARED_FILE = "tokenizer.model"
SOURCE_FILE = "source.model"
TARGET_FILE = "target.model"
TOKENIZER_FILES = (SETTINGS_FILE, SHARED_FILE, SOURCE_FILE, TARGET_FILE)
"""All files of a tokenizer; fingerprints of training data hash them in this order."""

_WORD_BOUNDARY = "\u2581"


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How sentences are prepared, for training a SentencePiece model and for using it.

    Attributes:
        tags: Piece that selects a target language, by language code; empty for a model of one direction.
        lowercase: Whether all text is lower-cased.
        separate_punctuation: Whether punctuation marks are separate words (word-level models).
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    lowercase: bool = False
    separate_punctuation: bool = False

    def __post_init__(self) -> None:
        tags_are_text = isinstance(self.tags, Mapping) and all(
            isinstance(text, str) and text for tag in self.tags.items() for text in tag
        )
        if not tags_are_text:
            raise TokenizerError(f"{SETTINGS_FILE}: `tags` must map language codes to pieces: {self.tags!r}")
        for name in ("lowercase", "separate_punctuation"):
            if not isinstance(getattr(self, name), bool):
                raise TokenizerError(f"{SETTINGS_FILE}: `{name}` must be true or false")

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
        values = {"format_version": FORMAT_VERSION} | {
            "tags": dict(self.tags),
            "lowercase": self.lowercase,
            "separate_punctuation": self.separate_punctuation,
        }
        text = json.dumps(values, ensure_ascii=False, indent=2)
        (folder / SETTINGS_FILE).write_text(text + "\n", encoding="utf-8")

    def prepare(self, text: str, *, is_clean: bool = False) -> str:
        """Returns a sentence as SentencePiece reads it.

        A typed U+2581 becomes an underscore, which looks alike: SentencePiece marks spaces with U+2581.

        Args:
            text: Any Unicode text.
            is_clean: Whether `clean` has been applied to the text.
        """
        text = (text if is_clean else clean(text)).replace(_WORD_BOUNDARY, "_")
        if self.lowercase:
            text = text.lower()
        return separate_punctuation(text) if self.separate_punctuation else text


def language_tags(codes: Iterable[str]) -> dict[str, str]:
    """Returns the tag of each language, to become a control symbol: `{"fr": "<2fr>"}`."""
    return {code: f"<2{code}>" for code in codes}


class Tokenizer:
    """The vocabularies of both sides, and how text is prepared for them; thread-safe.

    Attributes:
        settings: How text is prepared.
        language_tags: Id that selects a target language, by language code; empty for a model of one
        direction.
    """

    def __init__(
        self, source: SentencePieceModel, target: SentencePieceModel, settings: TokenizerSettings
    ) -> None:
        """Joins two sides, the same object twice for a shared vocabulary.

        Raises:
            TokenizerError: If the sides disagree about a special id, or a tag is missing.
        """
        for name, left, right in zip(SPECIAL_NAMES, source.special_ids, target.special_ids, strict=True):
            if left != right:
                raise TokenizerError(
                    f"{source.name} and {target.name} must agree on the {name} id: {left} and {right}"
                )
        self._source = source
        self._target = target
        self.settings = settings
        self.language_tags = {code: source.control_id(piece) for code, piece in settings.tags.items()}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a tokenizer's files.

        Raises:
            TokenizerError: If a file is missing, not a tokenizer's file, or contradicts another.
        """
        folder = Path(folder)
        settings = TokenizerSettings.load(folder)
        if (folder / SHARED_FILE).exists():
            shared = SentencePieceModel(folder / SHARED_FILE)
            return cls(shared, shared, settings)
        if not (folder / SOURCE_FILE).exists():
            raise TokenizerError(f"{folder} must hold {SHARED_FILE}, or {SOURCE_FILE} and {TARGET_FILE}")
        source, target = (SentencePieceModel(folder / file) for file in (SOURCE_FILE, TARGET_FILE))
        return cls(source, target, settings)

    @property
    def is_shared(self) -> bool:
        """Whether both sides use one vocabulary."""
        return self._source is self._target

    @property
    def model_files(self) -> tuple[str, str]:
        """File names of the source and the target model, the same twice for a shared vocabulary."""
        return (SHARED_FILE, SHARED_FILE) if self.is_shared else (SOURCE_FILE, TARGET_FILE)

    @property
    def source_vocab_size(self) -> int:
        """Number of source ids, special ids included."""
        return self._source.size

    @property
    def target_vocab_size(self) -> int:
        """Number of target ids, special ids included."""
        return self._target.size

    @property
    def pad_id(self) -> int:
        """Id of padding, on both sides."""
        return self._source.pad_id

    @property
    def bos_id(self) -> int:
        """Id of the beginning of a sentence, on both sides."""
        return self._source.bos_id

    @property
    def eos_id(self) -> int:
        """Id of the end of a sentence, on both sides."""
        return self._source.eos_id

    @property
    def unk_id(self) -> int:
        """Id of unknown pieces, on both sides."""
        return self._source.unk_id

    @property
    def target_tag_ids(self) -> tuple[int, ...]:
        """Language tags among the target ids, which no translation may hold; none if the sides differ."""
        return tuple(self.language_tags.values()) if self.is_shared else ()

    def encode(self, text: str, *, target_language: str | None = None, is_clean: bool = False) -> list[int]:
        """Returns the ids of a source sentence, ready for the network: [tag], pieces, EOS.

        Args:
            text: Any Unicode text.
            target_language: Needed if the model has language tags, ignored otherwise.
            is_clean: Whether `clean` has been applied to the text.

        Raises:
            UnsupportedLanguageError: If the model has tags, but none for this language.
        """
        return [
            *self._tag(target_language),
            *self._source.encode(self._readable(text, is_clean)),
            self.eos_id,
        ]

    def reads_otherwise(self, text: str) -> bool:
        """Returns whether the text is tokenised from other characters as a source than as a target."""
        return self._readable(text) != self.settings.prepare(text)

    def can_spell(self, ids: Sequence[int]) -> bool:
        """Returns whether the ids from `encode` mostly stand for text that the vocabulary knows.

        They do not if, for example, the vocabulary lacks the alphabet (SentencePieceModel.is_mostly_foreign).
        """
        return not self._source.is_mostly_foreign(ids)

    def encode_target(self, text: str) -> list[int]:
        """Returns the ids of a target sentence: pieces, EOS."""
        return [*self._target.encode(self.settings.prepare(text)), self.eos_id]

    def encode_batch(self, texts: Sequence[str], *, target_language: str | None = None) -> list[list[int]]:
        """Encodes many source sentences on several threads.

        Raises:
            UnsupportedLanguageError: If the model has tags, but none for this language.
        """
        tag = self._tag(target_language)
        pieces = self._source.encode_batch([self._readable(text) for text in texts])
        return [[*tag, *ids, self.eos_id] for ids in pieces]

    def encode_target_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many target sentences on several threads."""
        pieces = self._target.encode_batch([self.settings.prepare(text) for text in texts])
        return [[*ids, self.eos_id] for ids in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids, without special ids, the unknown piece included.

        Bytes that are not a character are left out. The text has no control characters.

        Raises:
            TokenizerError: If an id is outside the vocabulary.
        """
        return self._target.decode(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the target pieces of ids, special ones included."""
        return self._target.pieces(ids)

    def source_pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the source pieces of ids, special ones included."""
        return self._source.pieces(ids)

    def scored_source_pieces(self) -> dict[int, tuple[str, float]]:
        """Returns the source pieces of text with their scores, by id (SentencePieceModel.scored_pieces)."""
        return self._source.scored_pieces()

    def scored_target_pieces(self) -> dict[int, tuple[str, float]]:
        """Returns the target pieces of text with their scores, by id."""
        return self._target.scored_pieces()

    def _readable(self, text: str, is_clean: bool = False) -> str:
        """Returns a source sentence in characters of the vocabulary, where they can spell it."""
        return nfkc_fallback(self.settings.prepare(text, is_clean=is_clean), self._source.characters)

    def _tag(self, target_language: str | None) -> list[int]:
        if not self.language_tags:
            return []
        tag = self.language_tags.get(target_language or "")
        if tag is None:
            raise UnsupportedLanguageError("target", target_language or "", self.language_tags)
        return [tag]


def copy_tokenizer(origin: Path, folder: Path) -> None:
    """Copies a tokenizer's files into an existing folder."""
    for name in TOKENIZER_FILES:
        if (origin / name).exists():
            shutil.copyfile(origin / name, folder / name)


def _read_json_object(path: Path) -> dict[str, object]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise TokenizerError(f"{path} must hold a JSON object")
    return values
