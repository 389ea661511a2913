"""① ⑨ The fields of DeepL's API, from which /openapi.json is made; those we lack are refused by name."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.http.body import Values
from app.http.errors import RequestError
from app.http.schemas import Code, File, GlossaryEntry, Name, Text, Texts
from model.errors import ForeignTextError, InputError, TextTooLongError, UnsupportedLanguageError
from model.text.glossary import MAX_ENTRIES, MAX_TERM_LENGTH

_TAGS: Final = "which tags end a sentence is always detected"
UNSUPPORTED: Final = {
    "auth_key": "send the key as `Authorization: DeepL-Auth-Key KEY`",
    "custom_instructions": "the models take no instructions",
    "non_splitting_tags": _TAGS,
    "style_id": "there are no style rules",
    "tag_handling_version": "there is one way to handle tags",
    "translation_memory_id": "there are no translation memories",
    "translation_memory_threshold": "there are no translation memories",
}
_VALUES: Final = {
    ("formality", "more"): "the models have one register; `prefer_more` is accepted",
    ("formality", "less"): "the models have one register; `prefer_less` is accepted",
    ("outline_detection", "false"): _TAGS,
    ("outline_detection", "0"): _TAGS,
}
MAX_TEXTS: Final = 50
"""Most texts of one request, as at DeepL."""
_MAX_TAGS: Final = 100
_MAX_PAIRS: Final = 100

ModelType = Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"]


def _digit(value: object) -> object:
    """Returns a JSON number as a form spells it."""
    return str(value) if type(value) is int else value


Splitting = Annotated[
    Literal["0", "1", "nonewlines"],
    BeforeValidator(_digit),
    WithJsonSchema({"enum": ["0", "1", "nonewlines", 0, 1]}),
]


def _names(value: object) -> object:
    return [name.strip() for name in value.split(",", _MAX_TAGS)] if isinstance(value, str) else value


TagNames = Annotated[
    list[Text],
    Field(max_length=_MAX_TAGS),
    BeforeValidator(_names),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "maxItems": _MAX_TAGS},
            ]
        }
    ),
]


def _truth(value: object) -> object:
    """Converts a switch of DeepL's clients: true, 1 or "1"."""
    return {"0": False, "1": True}.get(str(value), value)


Switch = Annotated[bool, BeforeValidator(_truth), WithJsonSchema({"enum": [True, False, 1, 0, "1", "0"]})]


class _Fields(BaseModel):
    """Fields of a request, of which no others are accepted."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DeepLOptions(_Fields):
    """How texts and documents are translated."""

    source_lang: Code | None = Field(default=None, description="Language code; detected text by text if none")
    glossary_id: Name | None = Field(
        default=None, description="Id or name of a stored glossary; needs `source_lang`"
    )
    glossary_ids: TagNames = Field(
        default=[], description="Ids of stored glossaries; of several, the first that has a term counts"
    )
    formality: Literal["default", "prefer_more", "prefer_less"] | None = Field(
        default=None, description="No effect: the models have one register"
    )
    enable_beta_languages: Switch | None = Field(default=None, description="No effect: there are none")


class DeepLTranslateRequest(DeepLOptions):
    """Texts to translate."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"text": ["Good morning."], "target_lang": "FR"}]}
    )

    text: Texts = Field(description=f"A text, or a list of at most {MAX_TEXTS}")
    target_lang: Code = Field(description="Language code; of `EN-GB` only the `EN` counts")
    split_sentences: Splitting | None = Field(
        default=None,
        description="`1`: at punctuation and line breaks; `nonewlines`: at punctuation; `0`: each text is "
        "one sentence. By default `1`, in HTML `nonewlines`",
    )
    tag_handling: Literal["html", "xml"] | None = Field(
        default=None, description="The text between tags is translated, markup stays as it is"
    )
    ignore_tags: TagNames = Field(
        default=[],
        description=f"Elements that are left alone; a list, or names between commas, at most {_MAX_TAGS}",
    )
    splitting_tags: TagNames = Field(
        default=[],
        description="Elements that always end the sentence; no effect in HTML, where blocks do",
    )
    preserve_formatting: Switch | None = Field(
        default=None, description="No effect: white space, case and punctuation are kept either way"
    )
    outline_detection: Annotated[Switch, WithJsonSchema({"enum": [True, 1, "1"]})] | None = Field(
        default=None, description="No effect; false is refused"
    )
    context: Text | None = Field(
        default=None, description="Not used, as the answer says: each sentence is read by itself"
    )
    model_type: ModelType | None = Field(
        default=None,
        description="`latency_optimized` decodes greedily, the others as the checkpoint does by default",
    )
    show_billed_characters: Switch = Field(default=False, description="Add `billed_characters`")


class DeepLDocumentRequest(DeepLOptions):
    """A file to translate."""

    file: File = Field(description="The file; the suffix of its name says what it is")
    filename: Text | None = Field(default=None, description="Its name, where the file has none")
    target_lang: Code = Field(description="Language code; of `EN-GB` only the `EN` counts")
    output_format: Text | None = Field(default=None, description="Suffix of the result: that of the file")


class DeepLDocumentKey(_Fields):
    """Shows whose document it is."""

    document_key: Text = Field(max_length=100, description="As the upload was answered")


class DeepLDocument(BaseModel):
    """A file that was sent."""

    document_id: str
    document_key: str


class DeepLDocumentStatus(BaseModel):
    """How far the translation of a file is."""

    document_id: str
    status: Literal["queued", "translating", "done", "error"]
    seconds_remaining: int | None = Field(default=None, description="While it is translated: an estimate")
    billed_characters: int | None = Field(default=None, description="When it is done; nothing is billed")
    error_message: str | None = Field(default=None, description="Why it failed")
    translated_characters: int | None = Field(default=None, description="While it is translated")
    total_characters: int | None = Field(default=None, description="While it is translated")


class DeepLLanguagesRequest(_Fields):
    """Which languages are asked for."""

    type: Literal["source", "target"] = Field(default="source", description="Which side of a translation")


class DeepLTranslation(BaseModel):
    """One text, translated."""

    detected_source_language: str = Field(description="As found, or as asked for", examples=["EN"])
    text: str
    billed_characters: int | None = Field(default=None, description="Of the source text, when asked for")
    model_type_used: ModelType | None = Field(default=None, description="When `model_type` was given")
    context_used: bool | None = Field(default=None, description="When `context` was given; false")
    model: str | None = Field(
        description="The checkpoint that translated; null for a text that came back unchanged"
    )
    model_version: str | None = Field(description="Which of its versions")
    pivot: str | None = Field(default=None, description="Through which language, where not at once")
    missing_terms: list[GlossaryEntry] | None = Field(
        default=None, description="Terms of the glossary that could not be placed"
    )


class DeepLTranslateResponse(BaseModel):
    """One translation a text, in order."""

    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    """A language that can be translated from, or into."""

    language: str = Field(examples=["FR"])
    name: str = Field(examples=["French"])
    supports_formality: bool | None = Field(default=None, description="Of a target language; never")


class DeepLUsage(BaseModel):
    """How much has been translated."""

    character_count: int = Field(
        description="Source characters that `/v2/translate` has translated since the process started, for "
        "this key, or for all clients where no key is needed"
    )
    character_limit: int = Field(description="There is none; this is the number DeepL writes for that")


class DeepLDictionaryRequest(_Fields):
    """Entries of a glossary for one language pair."""

    source_lang: Code = Field(description="Language code")
    target_lang: Code = Field(description="Language code")
    entries: Text = Field(
        description=f"In each line a term and its translation, at most {MAX_ENTRIES}; either has at most "
        f"{MAX_TERM_LENGTH} characters"
    )
    entries_format: Literal["tsv", "csv"] = Field(
        default="tsv", description="`tsv`: with a tab between the columns; `csv`: with a comma, or quoted"
    )


class DeepLGlossaryRequest(DeepLDictionaryRequest):
    """A glossary of one language pair."""

    name: Name = Field(description="Name of the glossary")


class DeepLMultilingualGlossaryRequest(_Fields):
    """A glossary of several language pairs."""

    name: Name = Field(description="Name of the glossary")
    dictionaries: list[DeepLDictionaryRequest] = Field(
        min_length=1, max_length=_MAX_PAIRS, description="The entries of each language pair"
    )


class DeepLGlossaryChange(_Fields):
    """What is to change in a glossary."""

    name: Name | None = Field(default=None, description="New name of the glossary")
    dictionaries: list[DeepLDictionaryRequest] = Field(
        default=[], max_length=_MAX_PAIRS, description="Entries to add, by language pair"
    )


class DeepLLanguagePair(BaseModel):
    """A source and a target language."""

    source_lang: str = Field(examples=["en"])
    target_lang: str = Field(examples=["fr"])


class DeepLGlossaryPairs(BaseModel):
    """Language pairs for which there can be glossaries."""

    supported_languages: list[DeepLLanguagePair]


class DeepLDictionary(DeepLLanguagePair):
    """How many entries a glossary has for a language pair."""

    entry_count: int


class DeepLGlossary(DeepLDictionary):
    """A glossary of one language pair."""

    glossary_id: str
    name: str
    ready: bool = Field(description="Always true")
    creation_time: str


class DeepLGlossaries(BaseModel):
    """The glossaries of one language pair."""

    glossaries: list[DeepLGlossary]


class DeepLMultilingualGlossary(BaseModel):
    """A glossary of several language pairs."""

    glossary_id: str
    name: str
    creation_time: str
    dictionaries: list[DeepLDictionary]


class DeepLMultilingualGlossaries(BaseModel):
    """All glossaries."""

    glossaries: list[DeepLMultilingualGlossary]


class DeepLEntries(DeepLLanguagePair):
    """The entries of a glossary for a language pair."""

    entries: str
    entries_format: Literal["tsv"]


class DeepLDictionaryEntries(BaseModel):
    """The entries of a glossary."""

    dictionaries: list[DeepLEntries]


def without_unsupported(values: Values) -> Values:
    """Returns the fields of a request without unsupported fields that are null.

    Raises:
        RequestError: If a field or value is not supported, naming it.
    """
    for name, reason in UNSUPPORTED.items():
        if values.get(name) is not None:
            raise _refusal(f"`{name}` is not supported: {reason}", name)
    if values.get("ignore_tags") and not values.get("tag_handling"):
        raise _refusal("`ignore_tags` needs `tag_handling`", "ignore_tags")
    for (name, value), reason in _VALUES.items():
        if str(values.get(name)).lower() == value:
            raise _refusal(f"`{name}` cannot be `{value}`: {reason}", name)
    return {name: value for name, value in values.items() if name not in UNSUPPORTED}


def with_deepl_names(error: InputError) -> InputError:
    """Returns the same error with the names that fields and languages have in DeepL's API."""
    if isinstance(error, UnsupportedLanguageError) and not isinstance(error, ForeignTextError):
        codes = [code.upper() for code in error.allowed]
        return UnsupportedLanguageError(f"{error.field}_lang", error.code, codes)
    if isinstance(error, TextTooLongError) and error.field == "q":
        return TextTooLongError("text", error.limit_name, error.limit, error.value)
    return error


def _refusal(message: str, name: str) -> RequestError:
    return RequestError("unsupported_request", message, name)
