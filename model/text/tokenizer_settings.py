"""③ The settings of a tokenizer apart from its SentencePiece models: the file `tokenizer.json`."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

from model.errors import TokenizerError
from model.text.normalisation import clean, separate_punctuation

SETTINGS_FILE = "tokenizer.json"
FORMAT_VERSION = 1
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
