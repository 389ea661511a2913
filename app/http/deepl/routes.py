"""① ⑨ The paths of DeepL's API, except those for glossaries."""

import time
from collections.abc import Iterator
from typing import Final, NoReturn

from starlette.requests import Request
from starlette.responses import Response

from app.http.body import Values, header_of
from app.http.deepl import schemas
from app.http.deepl.glossaries import glossary_of, language_of
from app.http.deepl.schemas import with_deepl_names, without_unsupported
from app.http.errors import RequestError, as_request_error
from app.http.libretranslate import FILE, file_response
from app.http.openapi import Operation
from app.http.receiving import Received, admit_and_read, client_of, context_of, receive, validate
from app.http.routes import checkpoint_fields, missing_terms
from app.http.streaming import while_connected
from app.lifecycle.context import Context
from app.translation.catalogue import Catalogue
from app.translation.file_jobs import FileJob, translate_file
from app.translation.glossary_store import StoredGlossary
from app.translation.requests import Answer, TranslationRequest
from model.errors import InputError
from model.text.document import Splitting
from model.text.formats.formats import suffix_of
from model.text.formats.markup_syntax import HTML, XML, MarkupSyntax
from model.text.languages import canonical_code, language_name

# In markup, blank lines are white space like any other.
_SPLITTING: Final[dict[str, Splitting]] = {"0": "none", "1": "sentences", "nonewlines": "paragraphs"}
_MARKUP_SPLITTING: Final[dict[str, Splitting]] = {**_SPLITTING, "nonewlines": "across_lines"}
# DeepL's value for contracts without a limit.
_NO_LIMIT: Final = 1_000_000_000_000
_TYPE_PARAMETER: Final = {
    "name": "type",
    "in": "query",
    "schema": {"enum": ["source", "target"], "default": "source"},
}
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
        texts_field="text",
        max_items=min(schemas.MAX_TEXTS, context.settings.max_items),
        prepare=without_unsupported,
    )
    glossary = await glossary_of(context, received.client, received.body)
    work = _translate(context, _translation_request(received, glossary))
    answers = await while_connected(request, work)
    context.usage.add(received.client, sum(map(len, received.texts)))
    pairs = zip(received.texts, answers, strict=True)
    translations = [dict(_translation_fields(received.body, text, answer)) for text, answer in pairs]
    return schemas.DeepLTranslateResponse.model_validate({"translations": translations})


def _translation_request(
    received: Received[schemas.DeepLTranslateRequest], glossary: StoredGlossary | None
) -> TranslationRequest:
    body = received.body
    markup = _markup(body)
    return TranslationRequest(
        texts=received.texts,
        fields=received.fields,
        source=body.source_lang,
        target=body.target_lang,
        deadline=received.deadline,
        client=received.client,
        markup=markup,
        splitting=(_MARKUP_SPLITTING if markup else _SPLITTING)[
            body.split_sentences or ("nonewlines" if body.tag_handling == "html" else "1")
        ],
        decoding={"strategy": "greedy"} if body.model_type == "latency_optimized" else {},
        glossary=glossary,
    )


def _markup(body: schemas.DeepLTranslateRequest) -> MarkupSyntax | None:
    if body.tag_handling is None:
        return None
    syntax = HTML if body.tag_handling == "html" else XML.outlining(body.splitting_tags)
    return syntax.ignoring(body.ignore_tags)


async def _translate(context: Context, request: TranslationRequest) -> list[Answer]:
    """Translate; errors name the fields as this API calls them."""
    try:
        return await context.service.translate(request)
    except InputError as error:
        raise with_deepl_names(error) from None


async def languages(request: Request) -> list[schemas.DeepLLanguage]:
    """Languages that can be translated from, or with `type=target` into."""
    context = context_of(request)
    values = await _query_and_form(request, context)
    kind = validate(schemas.DeepLLanguagesRequest, values, is_form=True).type
    catalogue = context.service.catalogue
    if kind == "source":
        return [
            schemas.DeepLLanguage(language=code.upper(), name=language_name(code))
            for code in catalogue.sources
        ]
    return [
        schemas.DeepLLanguage(language=code, name=name, supports_formality=False)
        for code, name in _target_codes(catalogue)
    ]


async def usage(request: Request) -> schemas.DeepLUsage:
    """Characters translated on these paths since the process started."""
    context = context_of(request)
    client = client_of(request, context)
    count = context.usage.characters(client)
    return schemas.DeepLUsage(character_count=count, character_limit=_NO_LIMIT)


async def _query_and_form(request: Request, context: Context) -> Values:
    """Fields of the query and, if there is one, of the body; DeepL's own client sends GET with a form."""
    client_of(request, context)
    fields: Values = dict(request.query_params)
    if header_of(request.scope, b"content-length", "0") != "0" or header_of(
        request.scope, b"transfer-encoding"
    ):
        body, _ = await admit_and_read(request, context, context.settings.max_items)
        fields |= body.values
    return fields


def _translation_fields(
    body: schemas.DeepLTranslateRequest, text: str, answer: Answer
) -> Iterator[tuple[str, object]]:
    language = answer.detection.language if answer.detection else canonical_code(body.source_lang or "")
    yield "detected_source_language", language.upper()
    yield "text", answer.text
    if body.show_billed_characters:
        yield "billed_characters", len(text)
    if body.model_type is not None:
        is_quick = body.model_type == "latency_optimized"
        yield "model_type_used", "latency_optimized" if is_quick else "quality_optimized"
    if body.context:
        yield "context_used", False
    yield from checkpoint_fields([answer]).items()
    if answer.missing_terms:
        yield "missing_terms", missing_terms(answer)


def _target_codes(catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    targets = {target for source in catalogue.sources for target in catalogue.targets(source)}
    for code in filter(targets.__contains__, catalogue.languages):
        yield from _VARIANTS.get(code, {code.upper(): language_name(code)}).items()


# Documents: a file is sent, asked about, and fetched once it is translated.


async def upload(request: Request) -> schemas.DeepLDocument:
    """Begin to translate a file, in the background and with the longest deadline there is."""
    context = context_of(request)
    received = await receive(
        request,
        schemas.DeepLDocumentRequest,
        texts_field="",
        size_limit="max_file_bytes",
        prepare=without_unsupported,
    )
    body, client, service = received.body, received.client, context.service
    suffix = suffix_of(body.filename or body.file.name)
    if body.output_format is not None and body.output_format.lower().lstrip(".") != suffix[1:]:
        raise RequestError("unsupported_request", "`output_format` must be that of the file", "output_format")
    target = language_of(service.catalogue, "target", body.target_lang)
    source = language_of(service.catalogue, "source", body.source_lang) if body.source_lang else None
    wanted = TranslationRequest(
        source=source,
        target=target,
        deadline=time.monotonic() + context.settings.max_timeout_ms / 1000,
        client=client,
        glossary=await glossary_of(context, client, body),
    )

    async def work(job: FileJob) -> bytes:
        translated = await translate_file(
            service,
            body.file.content,
            suffix,
            wanted,
            max_unpacked_bytes=context.settings.max_unpacked_bytes,
            progress=job.progress,
        )
        context.usage.add(client, job.total)
        return translated

    name, job = context.file_jobs.start(work, suffix, client, len(body.file.content))
    return schemas.DeepLDocument(document_id=name, document_key=job.key)


async def status(request: Request) -> schemas.DeepLDocumentStatus:
    """How far the translation of a file is."""
    job = await _job(request)
    fields: dict[str, object] = {"document_id": request.path_params["document_id"]}
    if job.failure is not None:
        fields |= {"status": "error", "error_message": str(as_request_error(job.failure))}
    elif job.name is not None:
        fields |= {"status": "done", "billed_characters": job.total}
    else:
        fields |= {
            "status": "translating" if job.total else "queued",
            "seconds_remaining": job.seconds_left,
            "translated_characters": job.done,
            "total_characters": job.total,
        }
    return schemas.DeepLDocumentStatus.model_validate(fields)


async def result(request: Request) -> Response:
    """The translated file, once; then it is deleted."""
    job = await _job(request)
    if job.failure is not None:
        raise job.failure
    if job.name is None:
        retry = {"Retry-After": str(job.seconds_left)}
        raise RequestError("file_not_ready", "the document is not translated yet", headers=retry)
    files = context_of(request).files
    path = files.path(job.name)
    if path is None:
        raise RequestError("not_found", "the document was fetched already, or deleted")
    response = file_response(path)
    files.remove(job.name)
    return response


async def cancel(request: Request) -> schemas.DeepLDocumentStatus:
    """End the translation of a file, whose translation is deleted if it is done already."""
    name, job = request.path_params["document_id"], await _job(request)
    context_of(request).file_jobs.cancel(name, job)
    message = "the translation was cancelled"
    return schemas.DeepLDocumentStatus(document_id=name, status="error", error_message=message)


async def _job(request: Request) -> FileJob:
    context = context_of(request)
    body, _ = await admit_and_read(request, context, 1)
    key = validate(schemas.DeepLDocumentKey, body.values, is_form=True).document_key
    job = context.file_jobs.find(request.path_params["document_id"], key)
    if job is None:
        raise RequestError("not_found", "there is no such document, or it was deleted")
    return job


async def rephrase(request: Request) -> Response:
    """Refused: the models translate, and cannot rephrase a text in its own language."""
    client_of(request, context_of(request))
    raise RequestError("unsupported_request", "rephrasing is not supported: the models only translate")


_KEYED, _WITH_BODY = (401, 403, 500, 503), (400, 401, 403, 413, 415, 500, 503)
_DOCUMENT, _DOCUMENT_KEY = "/v2/document/{document_id}", schemas.DeepLDocumentKey

OPERATIONS: Final = (
    *(
        Operation(
            path,
            endpoint,
            "POST",
            tag=_TAG,
            summary=summary,
            body=body,
            answer=answer,
            errors=(*_WITH_BODY, *errors),
        )
        for path, endpoint, summary, body, answer, errors in (
            (
                "/v2/translate",
                translate,
                "Translate texts as DeepL's clients ask",
                schemas.DeepLTranslateRequest,
                schemas.DeepLTranslateResponse,
                (404, 429, 504),
            ),
            (
                "/v2/document",
                upload,
                "Send a file to be translated",
                schemas.DeepLDocumentRequest,
                schemas.DeepLDocument,
                (404, 429),
            ),
            (_DOCUMENT, status, "Tell how far a file is", _DOCUMENT_KEY, schemas.DeepLDocumentStatus, (404,)),
            (f"{_DOCUMENT}/result", result, "Fetch a translated file", _DOCUMENT_KEY, FILE, (404,)),
            (
                f"{_DOCUMENT}/cancel",
                cancel,
                "Cancel the translation of a file",
                _DOCUMENT_KEY,
                schemas.DeepLDocumentStatus,
                (404,),
            ),
        )
    ),
    Operation(
        "/v2/languages",
        languages,
        "GET",
        "POST",
        tag=_TAG,
        summary="List languages as DeepL does",
        answer=list[schemas.DeepLLanguage],
        errors=_WITH_BODY,
        parameters=(_TYPE_PARAMETER,),
    ),
    Operation(
        "/v2/usage",
        usage,
        "GET",
        "POST",
        tag=_TAG,
        summary="Tell how much has been translated",
        answer=schemas.DeepLUsage,
        errors=_KEYED,
    ),
    Operation(
        "/v2/write/rephrase",
        rephrase,
        "POST",
        tag=_TAG,
        summary="Refused: rephrase a text",
        answer=NoReturn,
        errors=(400, *_KEYED),
    ),
)
