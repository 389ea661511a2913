"""① ⑨ The paths of DeepL's API."""

from collections.abc import Iterator, Sequence
from typing import Final

from starlette.requests import Request

from app.http.body import Values, field_of
from app.http.deepl import schemas
from app.http.deepl.glossaries import glossary_of
from app.http.deepl.schemas import renamed, supported
from app.http.openapi import Operation
from app.http.receiving import Received, client_of, context_of, read_fields, receive, validate
from app.http.routes import missing_terms, translators
from app.http.streaming import while_connected
from app.lifecycle.context import Context
from app.translation.catalogue import Catalogue
from app.translation.glossary_store import StoredGlossary
from app.translation.jobs import Answer, TranslationRequest
from model.errors import InputError
from model.text.document import Splitting
from model.text.formats.markup_syntax import HTML, XML, MarkupSyntax
from model.text.languages import canonical_code, language_name

# In markup, blank lines are white space like any other.
_SPLITTING: Final[dict[str, Splitting]] = {"0": "none", "1": "sentences", "nonewlines": "paragraphs"}
_MARKUP_SPLITTING: Final[dict[str, Splitting]] = {**_SPLITTING, "nonewlines": "across_lines"}
_MARKUP: Final[dict[str | None, MarkupSyntax | None]] = {None: None, "html": HTML, "xml": XML}
# DeepL's value for contracts without a limit.
_NO_LIMIT: Final = 1_000_000_000_000
_TYPE: Final = {"name": "type", "in": "query", "schema": {"enum": ["source", "target"], "default": "source"}}

# DeepL's clients refuse plain EN and PT as targets; here both variants mean the language itself.
_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
_TAG: Final = "DeepL"


async def translate(request: Request) -> schemas.DeepLTranslateResponse:
    """Translate one text or a list of them, all or none.

    What DeepL offers and this service does not, such as style rules, is refused by name. A field that is
    wrong is a 400 on these paths, as at DeepL.
    """
    context = context_of(request)
    received = await receive(
        request,
        schemas.DeepLTranslateRequest,
        texts="text",
        max_items=min(schemas.MAX_TEXTS, context.settings.max_items),
        prepare=supported,
    )
    glossary = await glossary_of(context, received.client, received.body)
    work = _translate(context, _translation_request(received, glossary))
    answers = await while_connected(request, work)
    context.usage.add(received.client, sum(map(len, received.texts)))
    return translate_response(received.body, received.texts, answers)


def _translation_request(
    received: Received[schemas.DeepLTranslateRequest], glossary: StoredGlossary | None
) -> TranslationRequest:
    body = received.body
    markup = _MARKUP[body.tag_handling]
    return TranslationRequest(
        texts=received.texts,
        fields=received.fields,
        source=body.source_lang,
        target=body.target_lang,
        deadline=received.deadline,
        client=received.client,
        markup=markup.ignoring(body.ignore_tags) if markup else None,
        splitting=(_MARKUP_SPLITTING if markup else _SPLITTING)[
            body.split_sentences or ("nonewlines" if markup is HTML else "1")
        ],
        decoding={"strategy": "greedy"} if body.model_type == "latency_optimized" else {},
        glossary=glossary,
    )


async def _translate(context: Context, request: TranslationRequest) -> list[Answer]:
    """Translate; errors name the fields as this API calls them."""
    try:
        return await context.service.translate(request)
    except InputError as error:
        raise renamed(error) from None


async def languages(request: Request) -> list[schemas.DeepLLanguage]:
    """Languages that can be translated from, or with `type=target` into."""
    context = context_of(request)
    values = await _values(request, context)
    kind = validate(schemas.DeepLLanguagesRequest, values, is_form=True).type
    catalogue = context.service.catalogue
    return target_languages(catalogue) if kind == "target" else source_languages(catalogue)


async def usage(request: Request) -> schemas.DeepLUsage:
    """Characters translated on these paths since the process started."""
    context = context_of(request)
    client = client_of(request, context)
    count = context.usage.characters(client)
    return schemas.DeepLUsage(character_count=count, character_limit=_NO_LIMIT)


async def _values(request: Request, context: Context) -> Values:
    """Fields of the query and, if there is one, of the body; DeepL's own client sends GET with a form."""
    client_of(request, context)
    fields: Values = dict(request.query_params)
    if field_of(request, b"content-length", "0") != "0" or field_of(request, b"transfer-encoding"):
        body, _ = await read_fields(request, context, context.settings.max_items)
        fields |= body.values
    return fields


def translate_response(
    body: schemas.DeepLTranslateRequest, texts: Sequence[str], answers: Sequence[Answer]
) -> schemas.DeepLTranslateResponse:
    """Returns the answer to a request: one translation for each text."""
    pairs = zip(texts, answers, strict=True)
    translations = [dict(_fields(body, text, answer)) for text, answer in pairs]
    return schemas.DeepLTranslateResponse.model_validate({"translations": translations})


def _fields(body: schemas.DeepLTranslateRequest, text: str, answer: Answer) -> Iterator[tuple[str, object]]:
    yield "detected_source_language", _source(body, answer)
    yield "text", answer.text
    if body.show_billed_characters:
        yield "billed_characters", len(text)
    if body.model_type is not None:
        yield "model_type_used", _model_type(body.model_type)
    if body.context:
        yield "context_used", False
    yield from translators([answer]).items()
    if answer.missing_terms:
        yield "missing_terms", missing_terms(answer)


def _source(body: schemas.DeepLTranslateRequest, answer: Answer) -> str:
    language = answer.detection.language if answer.detection else canonical_code(body.source_lang or "")
    return language.upper()


def _model_type(wanted: schemas.ModelType) -> str:
    return "latency_optimized" if wanted == "latency_optimized" else "quality_optimized"


def source_languages(catalogue: Catalogue) -> list[schemas.DeepLLanguage]:
    """Returns the source languages."""
    return [
        schemas.DeepLLanguage(language=code.upper(), name=language_name(code)) for code in catalogue.sources
    ]


def target_languages(catalogue: Catalogue) -> list[schemas.DeepLLanguage]:
    """Returns the target languages."""
    return [
        schemas.DeepLLanguage(language=code, name=name, supports_formality=False)
        for code, name in _target_codes(catalogue)
    ]


def _target_codes(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    targets = {target for source in catalogue.sources for target in catalogue.targets(source)}
    for code in filter(targets.__contains__, catalogue.languages):
        yield from _VARIANTS.get(code, {code.upper(): language_name(code)}).items()


OPERATIONS: Final = (
    Operation(
        "/v2/translate",
        translate,
        "POST",
        tag=_TAG,
        summary="Translate texts as DeepL's clients ask",
        body=schemas.DeepLTranslateRequest,
        answer=schemas.DeepLTranslateResponse,
        errors=(400, 401, 403, 404, 413, 415, 429, 500, 503, 504),
    ),
    Operation(
        "/v2/languages",
        languages,
        "GET",
        "POST",
        tag=_TAG,
        summary="List languages as DeepL does",
        answer=list[schemas.DeepLLanguage],
        errors=(400, 401, 403, 413, 415, 500, 503),
        parameters=(_TYPE,),
    ),
    Operation(
        "/v2/usage",
        usage,
        "GET",
        "POST",
        tag=_TAG,
        summary="Tell how much has been translated",
        answer=schemas.DeepLUsage,
        errors=(401, 403, 500, 503),
    ),
)
