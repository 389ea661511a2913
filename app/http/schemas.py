"""① ⑨ The fields of requests and answers; the OpenAPI document is made from them."""

from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from app.http.body import Upload
from model.translation.quality_checks import Kind

Detail = Literal["scores", "tokens", "alignment", "degeneration"]


def _shape(value: object) -> str:
    return "list" if isinstance(value, list) else "text"


# A limit of the length makes pydantic refuse lone surrogates, which JSON can escape but UTF-8 cannot encode.
Text = Annotated[str, Field(min_length=0, json_schema_extra=lambda schema: schema.pop("minLength"))]
Code = Annotated[str, Field(min_length=1, max_length=35)]
Kept = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Texts = Annotated[
    Annotated[Text, Tag("text")] | Annotated[list[Text], Tag("list")],
    Discriminator(_shape),
]


class RequestFields(BaseModel):
    """Null stands for a field that is not sent, as many typed clients send it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="API key, where one is needed and no Authorization header carries it"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: dict[str, object]) -> dict[str, object]:
        if None not in values.values():
            return values
        fields = cls.model_fields
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in fields or fields[name].is_required()
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Returns the schema of the fields, in which optional fields may be null."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for name, field in schema["properties"].items():
            if not cls.model_fields[name].is_required():
                schema["properties"][name] = _or_null(field)
        return schema


def _or_null(field: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in field:
        return field
    about: dict[str, Any] = {key: field[key] for key in ("default", "description", "title") if key in field}
    return {"anyOf": [{key: field[key] for key in field.keys() - about}, {"type": "null"}], **about}


class GlossaryEntry(BaseModel):
    """A term and the translation that it must have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Kept = Field(description="The term, found as whole words", examples=["boiler"])
    target: Kept = Field(description="Its translation", examples=["chaudière"])


Glossary = Annotated[
    Annotated[Name, Tag("text")]
    | Annotated[list[GlossaryEntry], Field(min_length=1, max_length=500), Tag("list")],
    Discriminator(_shape),
]


class Decoding(BaseModel):
    """How to search for the translation; what is not given is the checkpoint's own choice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strategy: Literal["greedy", "beam", "sample"] | None = Field(default=None, description="Kind of search")
    beam_size: int | None = Field(
        default=None,
        ge=1,
        le=32,
        description="Hypotheses kept by `beam`, which it implies where no `strategy` is given",
    )
    length_penalty: float | None = Field(
        default=None, ge=0, le=10, description="Strength of length normalisation"
    )
    patience: float | None = Field(
        default=None,
        gt=0,
        le=16,
        description="Search ends when patience × beam_size hypotheses are finished and none is ahead of them",
    )
    temperature: float | None = Field(default=None, gt=0, le=100, description="Divides logits when sampling")
    top_k: int | None = Field(default=None, ge=0, le=1_000_000, description="Sample among so many; 0 = all")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Sample among the likeliest that hold this probability"
    )
    min_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Never sample what is less likely than this share of the likeliest",
    )
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="Makes a sample repeatable")
    max_length: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Most tokens of a translated sentence, its end included; one that would be longer "
        "ends there, and the answer says so in `unfinished`",
    )
    min_length: int | None = Field(default=None, ge=0, le=1024, description="Fewest tokens of a sentence")
    no_repeat_ngram_size: int | None = Field(
        default=None, ge=0, le=100, description="No group of so many tokens comes twice; 0 allows it"
    )
    repetition_penalty: float | None = Field(
        default=None, gt=0, le=100, description="Above 1, tokens used already become less likely"
    )


class TranslateRequest(RequestFields):
    """Texts to translate; a superset of LibreTranslate's request."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"q": ["Good morning.", "Where is the station?"], "source": "en", "target": "fr"},
                {"q": "Bonjour.", "target": "en", "alternatives": 2, "include": ["scores"]},
            ]
        }
    )

    q: Texts = Field(description="A text, or a list of texts; one result each, in order")
    source: Code = Field(default="auto", description="Language code, or `auto` to detect it text by text")
    target: Code = Field(description="Language code")
    format: Literal["text", "html"] = Field(
        default="text",
        description="`html`: the text between tags is translated; markup, code and scripts stay as they are, "
        "and a line break ends no sentence",
    )
    alternatives: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Further translations of each text, fewer where the search finds no more; "
        "greedy search becomes beam search, and a beam at least one larger",
    )
    model: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Name of a loaded checkpoint; by default the first for the language pair"
    )
    decoding: Decoding = Field(default=Decoding(), description="How to search for the translation")
    # Pydantic copies a default that is a list for each request, and a tuple never.
    keep: list[Kept] = Field(
        default=cast(list[Kept], ()),
        max_length=100,
        description="Strings that are not translated, such as names of products; placeholders, tags, code, "
        "addresses and figures are kept anyway",
    )
    glossary: Glossary | None = Field(
        default=None,
        description="Terms with the translation that they must have, or the name or id of a stored glossary",
    )
    include: list[Detail] = Field(
        default=cast(list[Detail], ()),
        max_length=4,
        description="What to add under `details`; `finished` and `degenerate` are always there, so "
        "`degeneration` adds them alone",
    )
    timeout_ms: int | None = Field(
        default=None,
        ge=1,
        description="Deadline of this request, milliseconds; at most MAX_TIMEOUT_MS",
    )


def _uploaded(value: object) -> Upload:
    if not isinstance(value, Upload):
        raise PydanticCustomError("no_file", "Input should be a file in multipart/form-data")
    return value


File = Annotated[Upload, PlainValidator(_uploaded), WithJsonSchema({"type": "string", "format": "binary"})]


class TranslateFileRequest(RequestFields):
    """A file to translate."""

    file: File = Field(description="The file; the suffix of its name says what it is")
    source: Code = Field(default="auto", description="Language code, or `auto` to detect it")
    target: Code = Field(description="Language code")
    timeout_ms: int | None = Field(
        default=None, ge=1, description="Deadline of this request, milliseconds; at most MAX_TIMEOUT_MS"
    )


class TranslatedFile(BaseModel):
    """Where the translated file is, for some time."""

    translatedFileUrl: str


class DetectRequest(RequestFields):
    """A text whose language is asked for."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"q": "Où est la gare ?"}]})

    q: Text = Field(description="The text")


class DetectedLanguage(BaseModel):
    """A language and how sure that is."""

    language: str = Field(examples=["en"])
    confidence: float = Field(
        ge=0, le=100, description="Per cent, as LibreTranslate gives it", examples=[98.0]
    )


class TokenDetail(BaseModel):
    """One sentence's tokens."""

    source: list[str] = Field(description="As the network read them; the language tag and end are among them")
    target: list[str] = Field(description="As it wrote them")
    log_probabilities: list[float] = Field(description="Of each target token, and of the end if it came")


class Degeneration(BaseModel):
    """Why a sentence's translation looked broken, and what was done about it."""

    kind: Kind = Field(
        description="`loop`: it went in circles; `unfinished`: its length limit ended it; `empty`: it held "
        "no text; `copy`: it was its source; `length`: it was far longer or shorter than its source; "
        "`brackets`: it had lost one of a pair of round brackets; `script`: it had letters of a script "
        "that neither its source nor its language is written in"
    )
    retried: bool = Field(
        description="Whether it was translated a second time, with a beam of at least 4, no three tokens "
        "twice in the same order and a repetition penalty of 1.1, or for `brackets` and `script` with a beam "
        "of at least 8; not where `decoding` says how to search, nor after the client has seen it grow, nor "
        "without time or room"
    )
    kept: bool = Field(description="Whether the second translation had no such fault and is the one given")


class Details(BaseModel):
    """What `include` asked for about one text: in each list one entry a sentence."""

    finished: list[bool] = Field(
        default=[], description="Whether it ended by itself; false where its length limit ended it"
    )
    degenerate: list[Degeneration | None] = Field(
        default=[], description="Whether its translation looked broken at first; null where it did not"
    )
    scores: list[float] = Field(default=[], description="Length-normalised log-probability")
    tokens: list[TokenDetail] = Field(default=[])
    alignment: list[list[list[float]]] = Field(
        default=[], description="For each target token, its attention to each source token"
    )


class TranslateResponse(BaseModel):
    """One result for a string, a list of results for a list."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "translatedText": ["Bonjour.", "Où est la gare ?"],
                    "model": "tatoeba-en-fr",
                    "model_version": "1+0f3a9c2e",
                }
            ]
        }
    )

    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(
        default=None, description="When `source` was `auto`"
    )
    alternatives: list[str] | list[list[str]] | None = Field(default=None, description="When asked for")
    model: str | list[str | None] | None = Field(
        description="The checkpoint that translated: a list where texts went to different checkpoints, "
        "null where all came back unchanged; `de-en>en-fr` where one went on with what another gave"
    )
    model_version: str | list[str | None] | None = Field(
        description="Which weights those were: version and beginning of the checksum; in the shape of `model`"
    )
    pivot: str | list[str | None] | None = Field(
        default=None,
        description="Only when no checkpoint translates the pair at once: the language that texts went "
        "through, in the shape of `model`. Alternatives and details are then of the last leg, from there "
        "to the target",
        examples=["en"],
    )
    unfinished: bool | list[bool] | None = Field(
        default=None,
        description="Only when a translation was ended by its length limit, `decoding.max_length` or the "
        "checkpoint's own, and so may lack its end: which ones",
    )
    missing_terms: list[GlossaryEntry] | list[list[GlossaryEntry]] | None = Field(
        default=None,
        description="Only when a translation lacks terms of the glossary: which ones, a list for each text "
        "where `q` is a list",
    )
    details: list[Details] | None = Field(default=None, description="When `include` asked for them")


class Language(BaseModel):
    """A language that can be translated."""

    code: str = Field(examples=["en"])
    name: str = Field(examples=["English"])
    targets: list[str] = Field(description="Into which languages", examples=[["fr"]])


class ModelLimits(BaseModel):
    """What a request may ask for: the checkpoint's limits of a sentence, and the service's settings."""

    max_source_tokens: int = Field(description="Of one sentence")
    max_target_tokens: int = Field(description="Of one sentence's translation")
    max_chars: int = Field(description="Characters of one text")
    max_items: int = Field(description="Texts in one request")
    max_body_bytes: int = Field(description="Bytes of a body")
    max_queued_tokens: int = Field(
        description="Source tokens of a request, times the hypotheses kept of each"
    )
    max_requests: int = Field(description="Requests that are served at a time, of all clients together")
    request_timeout_ms: int = Field(description="Deadline of a request that names none")
    max_timeout_ms: int = Field(description="Longest deadline that a request may name")


class ModelDescription(BaseModel):
    """A checkpoint that requests are sent to."""

    name: str
    version: str = Field(
        description="The checkpoint's own, and the beginning of its checksum", examples=["1+0f3a9c2e"]
    )
    checksum: str = Field(description="SHA-256 of the whole checkpoint")
    pairs: list[tuple[str, str]] = Field(
        description="Source and target language; empty if `sources` and `targets` are given",
        examples=[[["en", "fr"]]],
    )
    sources: list[str] | None = Field(
        default=None, description="Source languages of a model of many, each of which goes with every target"
    )
    targets: list[str] | None = Field(default=None, description="Target languages of such a model")
    device: str
    precision: str
    parameters: int
    limits: ModelLimits
    loaded: bool = Field(description="Whether it is in memory; otherwise its first request loads it")
    pinned: bool = Field(description="Whether it always is")
    memory_bytes: int = Field(description="Memory that it occupies when loaded; an estimate before that")
    licence: str | None = Field(default=None, description="Licence of the weights", examples=["CC-BY-4.0"])
    origin: str | None = Field(default=None, description="Where the weights are from")


class Status(BaseModel):
    """That all is well."""

    status: Literal["ok"] = "ok"
    cuda_graphs: dict[str, int] | None = Field(
        default=None,
        description="On a GPU only: how many shapes of decoder steps are recorded as CUDA graphs, and "
        "how many run eagerly because a recording failed",
        examples=[{"recorded": 96, "eager": 0}],
    )
