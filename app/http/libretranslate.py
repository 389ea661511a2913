"""① ⑨ The further paths of LibreTranslate's API: what its web page and its other clients ask for."""

import json
import os
from errno import ENOSPC
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.background import in_background
from app.http.errors import RequestError
from app.http.openapi import Operation
from app.http.receiving import check_lengths, context_of, receive
from app.http.schemas import Code, RequestFields, TranslatedFile, TranslateFileRequest
from app.http.streaming import while_connected
from app.translation import file_jobs
from app.translation.requests import TranslationRequest
from model.text.formats.formats import SUFFIXES, suffix_of
from model.text.languages import language_name

_TAG: Final = "LibreTranslate"
FILE: Final = "application/octet-stream"
"""Media type of a translated file, whatever its kind."""
# LibreTranslate's default: milliseconds after a key stroke in which its page asks for nothing.
_FRONTEND_TIMEOUT: Final = 500


class FrontendLanguage(BaseModel):
    """A language that a page shows first."""

    code: str = Field(examples=["auto"])
    name: str = Field(examples=["Auto Detect"])


class FrontendLanguages(BaseModel):
    """The languages that a page shows first."""

    source: FrontendLanguage
    target: FrontendLanguage


class FrontendSettings(BaseModel):
    """What a page needs to know of the service."""

    apiKeys: bool = Field(description="Whether there are API keys")
    keyRequired: bool = Field(description="Whether a request needs one")
    charLimit: int = Field(description="Most characters of a text")
    frontendTimeout: int = Field(description="Milliseconds to wait after a key stroke")
    filesTranslation: bool = Field(description="Whether files are translated")
    supportedFilesFormat: list[str] = Field(description="Suffixes of these files", examples=[[".txt"]])
    suggestions: bool = Field(description="Whether suggestions are kept")
    language: FrontendLanguages


class SuggestRequest(RequestFields):
    """A better translation of a text."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"q": "Hello!", "s": "Salut !", "source": "en", "target": "fr"}]}
    )

    q: str = Field(min_length=1, description="The text")
    s: str = Field(min_length=1, description="The suggested translation")
    source: Code = Field(description="Language code of the text, or `auto`, which is kept as it is")
    target: Code = Field(description="Language code of the translation")


class Suggested(BaseModel):
    """The suggestion was kept."""

    success: bool


async def frontend_settings(request: Request) -> FrontendSettings:
    """What a page needs to know of the service, in LibreTranslate's words."""
    context = context_of(request)
    settings, catalogue = context.settings, context.service.catalogue
    target = catalogue.targets(catalogue.sources[0])[0]
    has_keys = settings.api_keys_file is not None
    return FrontendSettings(
        apiKeys=has_keys,
        keyRequired=has_keys,
        charLimit=settings.max_chars,
        frontendTimeout=_FRONTEND_TIMEOUT,
        filesTranslation=True,
        supportedFilesFormat=list(SUFFIXES),
        suggestions=settings.suggestions_file is not None,
        language=FrontendLanguages(
            source=FrontendLanguage(code="auto", name="Auto Detect"),
            target=FrontendLanguage(code=target, name=language_name(target)),
        ),
    )


async def suggest(request: Request) -> Suggested:
    """Keep a better translation of a text for the operator, where DRAGOMAN_SUGGESTIONS_FILE names a file."""
    context = context_of(request)
    received = await receive(request, SuggestRequest, max_items=1)
    if (path := context.settings.suggestions_file) is None:
        raise RequestError("suggestions_disabled", "this service keeps no suggestions (SUGGESTIONS_FILE)")
    body, catalogue = received.body, context.service.catalogue
    check_lengths([("s", body.s)], context.settings.max_chars)
    # LibreTranslate's page sends what its user chose.
    source = "auto" if body.source.lower() == "auto" else catalogue.language("source", body.source)
    target = catalogue.language("target", body.target)
    line = json.dumps({"q": body.q, "s": body.s, "source": source, "target": target}, ensure_ascii=False)
    await in_background(lambda: _append(path, f"{line}\n".encode()))
    return Suggested(success=True)


def _append(path: Path, line: bytes) -> None:
    """Add a line to a file that only its owner may read; one write, so that processes may share the file."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(file, line) < len(line):
            raise OSError(ENOSPC, "a line was not written completely")
    finally:
        os.close(file)


async def spec(request: Request) -> Response:
    """The OpenAPI document, under LibreTranslate's name."""
    return JSONResponse(request.app.openapi())


async def translate_file(request: Request) -> TranslatedFile:
    """Translate a file; layout, links, code and time codes stay.

    The answer says where the translated file is. Its name is all that is needed to fetch it, and it is
    deleted after FILE_SECONDS.
    """
    context = context_of(request)
    received = await receive(request, TranslateFileRequest, texts_field="", size_limit="max_file_bytes")
    body, client = received.body, received.client
    suffix = suffix_of(body.file.name)
    work = file_jobs.translate_file(
        context.service,
        body.file.content,
        suffix,
        TranslationRequest(
            source=None if body.source.lower() == "auto" else body.source,
            target=body.target,
            deadline=received.deadline,
            client=client,
        ),
        max_unpacked_bytes=context.settings.max_unpacked_bytes,
    )
    name = await context.files.add(await while_connected(request, work), suffix, client)
    return TranslatedFile(translatedFileUrl=f"{request.base_url}download_file/{name}")


async def download_file(request: Request) -> Response:
    """A translated file, under the name that its translation was given."""
    path = context_of(request).files.path(request.path_params["name"])
    if path is None:
        raise RequestError("not_found", "there is no such file, or it was deleted")
    return file_response(path)


def file_response(path: Path) -> Response:
    """Returns a translated file as one to save, which no browser shows or runs."""
    content = path.read_bytes()
    headers = {
        "Content-Disposition": f'attachment; filename="translation{path.suffix}"',
        "Cache-Control": "private, no-store",
    }
    return Response(content, media_type=FILE, headers=headers)


OPERATIONS: Final = (
    Operation(
        "/translate_file",
        translate_file,
        "POST",
        tag=_TAG,
        summary="Translate a file",
        body=TranslateFileRequest,
        answer=TranslatedFile,
        errors=(400, 401, 403, 413, 415, 422, 429, 500, 503, 504),
    ),
    Operation(
        "/download_file/{name}",
        download_file,
        "GET",
        tag=_TAG,
        summary="Fetch a translated file",
        answer=FILE,
        errors=(404,),
    ),
    Operation(
        "/frontend/settings",
        frontend_settings,
        "GET",
        tag=_TAG,
        summary="Tell a page what the service offers",
        answer=FrontendSettings,
        errors=(500, 503),
    ),
    Operation(
        "/suggest",
        suggest,
        "POST",
        tag=_TAG,
        summary="Suggest a better translation",
        body=SuggestRequest,
        answer=Suggested,
        errors=(400, 401, 403, 413, 415, 422, 429, 500, 503),
    ),
    Operation("/spec", spec, "GET", tag=_TAG, summary="The OpenAPI document", answer=dict[str, object]),
)
