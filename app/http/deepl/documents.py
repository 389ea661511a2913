"""① ⑨ DeepL's paths for documents: a file is sent, asked about, and fetched once it is translated."""

import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.http.deepl import schemas
from app.http.deepl.glossaries import glossary_of
from app.http.deepl.schemas import renamed, supported
from app.http.errors import RequestError, as_request_error
from app.http.libretranslate import file_response
from app.http.openapi import Operation
from app.http.receiving import client_of, context_of, read_fields, receive, validate
from app.translation.files import FileJob, translate_file
from app.translation.jobs import TranslationRequest
from model.errors import InputError
from model.text.formats.formats import suffix_of

_TAG: Final = "DeepL"
_ID: Final = {"name": "document_id", "in": "path", "required": True, "schema": {"type": "string"}}


async def upload(request: Request) -> schemas.DeepLDocument:
    """Begin to translate a file, in the background and with the longest deadline there is."""
    context = context_of(request)
    received = await receive(
        request, schemas.DeepLDocumentRequest, texts="", limit="max_file_bytes", prepare=supported
    )
    body, client, service = received.body, received.client, context.service
    suffix = suffix_of(body.filename or body.file.name)
    if body.output_format is not None and body.output_format.lower().lstrip(".") != suffix[1:]:
        raise RequestError("unsupported_request", "`output_format` must be that of the file", "output_format")
    try:
        target = service.catalogue.language("target", body.target_lang)
        source = service.catalogue.language("source", body.source_lang) if body.source_lang else None
    except InputError as error:
        raise renamed(error) from None

    wanted = TranslationRequest(
        texts=(),
        fields=(),
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
    body, _ = await read_fields(request, context, 1)
    key = validate(schemas.DeepLDocumentKey, body.values, is_form=True).document_key
    job = context.file_jobs.find(request.path_params["document_id"], key)
    if job is None:
        raise RequestError("not_found", "there is no such document, or it was deleted")
    return job


async def rephrase(request: Request) -> Response:
    """Refused: the models translate, and cannot rephrase a text in its own language."""
    client_of(request, context_of(request))
    raise RequestError("unsupported_request", "rephrasing is not supported: the models only translate")


OPERATIONS: Final = (
    Operation(
        "/v2/document",
        upload,
        "POST",
        tag=_TAG,
        summary="Send a file to be translated",
        body=schemas.DeepLDocumentRequest,
        answer=schemas.DeepLDocument,
        errors=(400, 401, 403, 404, 413, 415, 429, 500, 503),
    ),
    Operation(
        "/v2/document/{document_id}",
        status,
        "POST",
        tag=_TAG,
        summary="Tell how far a file is",
        body=schemas.DeepLDocumentKey,
        answer=schemas.DeepLDocumentStatus,
        parameters=(_ID,),
        errors=(400, 401, 403, 413, 415, 500, 503),
    ),
    Operation(
        "/v2/document/{document_id}/result",
        result,
        "POST",
        tag=_TAG,
        summary="Fetch a translated file",
        body=schemas.DeepLDocumentKey,
        parameters=(_ID,),
        errors=(400, 401, 403, 413, 415, 500, 503),
    ),
    Operation(
        "/v2/document/{document_id}/cancel",
        cancel,
        "POST",
        tag=_TAG,
        summary="Cancel the translation of a file",
        body=schemas.DeepLDocumentKey,
        answer=schemas.DeepLDocumentStatus,
        parameters=(_ID,),
        errors=(400, 401, 403, 413, 415, 500, 503),
    ),
    Operation(
        "/v2/write/rephrase",
        rephrase,
        "POST",
        tag=_TAG,
        summary="Refused: rephrase a text",
        errors=(400, 401, 403, 503),
    ),
)
