"""① ⑨ DeepL's paths for glossaries: version 2 has one language pair in each, version 3 several."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.background import in_background
from app.http.deepl import schemas
from app.http.deepl.schemas import with_deepl_names
from app.http.errors import RequestError
from app.http.openapi import Operation
from app.http.receiving import client_of, context_of, receive
from app.lifecycle.context import Context
from app.translation.catalogue import Catalogue
from app.translation.glossary_store import StoredGlossary
from model.checkpoint.card import Pair
from model.errors import InputError
from model.text.glossary import Glossary, read_entries
from model.text.languages import canonical_code

_TAG: Final = "DeepL"
_TSV: Final = "text/tab-separated-values"
_PAIR_PARAMETERS: Final = tuple(
    {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
    for name in ("source_lang", "target_lang")
)


async def language_pairs(request: Request) -> schemas.DeepLGlossaryPairs:
    """The language pairs that can be translated, each of which can have a glossary."""
    client_of(request, context_of(request))
    catalogue = context_of(request).service.catalogue
    pairs = {
        (canonical_code(source), canonical_code(target))
        for source in catalogue.sources
        for target in catalogue.targets(source)
    }
    listed = [{"source_lang": source, "target_lang": target} for source, target in sorted(pairs)]
    return schemas.DeepLGlossaryPairs.model_validate({"supported_languages": listed})


async def create(request: Request) -> schemas.DeepLGlossary:
    """Store a glossary of one language pair, where DRAGOMAN_GLOSSARY_FOLDER names a folder."""
    received = await receive(request, schemas.DeepLGlossaryRequest, texts_field="")
    return _described(await _create(request, received.client, received.body.name, [received.body]))


async def create_multilingual(request: Request) -> schemas.DeepLMultilingualGlossary:
    """Store a glossary of several language pairs, where DRAGOMAN_GLOSSARY_FOLDER names a folder."""
    received = await receive(request, schemas.DeepLMultilingualGlossaryRequest, texts_field="")
    body = received.body
    return _described_multilingual(await _create(request, received.client, body.name, body.dictionaries))


async def list_all(request: Request) -> schemas.DeepLGlossaries:
    """The glossaries of one language pair."""
    found = [_described(each) for each in await _list(request) if len(each.dictionaries) == 1]
    return schemas.DeepLGlossaries(glossaries=found)


async def list_multilingual(request: Request) -> schemas.DeepLMultilingualGlossaries:
    """All glossaries."""
    found = [_described_multilingual(each) for each in await _list(request)]
    return schemas.DeepLMultilingualGlossaries(glossaries=found)


async def get(request: Request) -> schemas.DeepLGlossary:
    """A glossary of one language pair, without its entries."""
    return _described(await _glossary_of_one_pair(request))


async def get_multilingual(request: Request) -> schemas.DeepLMultilingualGlossary:
    """A glossary, without its entries."""
    return _described_multilingual(await _glossary_of_path(request))


async def entries(request: Request) -> Response:
    """The entries of a glossary of one language pair, as tab-separated values."""
    (terms,) = (await _glossary_of_one_pair(request)).dictionaries.values()
    return Response(_tsv(terms), media_type=_TSV)


async def multilingual_entries(request: Request) -> schemas.DeepLDictionaryEntries:
    """The entries of a glossary for one language pair."""
    glossary, pair = await _glossary_of_path(request), _queried_pair(request)
    if (terms := glossary.dictionaries.get(pair)) is None:
        raise _not_found()
    found = {"source_lang": pair[0], "target_lang": pair[1], "entries": _tsv(terms), "entries_format": "tsv"}
    return schemas.DeepLDictionaryEntries.model_validate({"dictionaries": [found]})


async def change(request: Request) -> schemas.DeepLMultilingualGlossary:
    """Rename a glossary, or add entries to it; those of a new language pair as well."""
    received = await receive(request, schemas.DeepLGlossaryChange, texts_field="")
    terms = _terms(context_of(request), received.body.dictionaries)
    changed = await _change(request, received.client, terms, name=received.body.name, merges=True)
    return _described_multilingual(changed)


async def replace_dictionary(request: Request) -> schemas.DeepLDictionary:
    """Replace the entries of a glossary for one language pair."""
    received = await receive(request, schemas.DeepLDictionaryRequest, texts_field="")
    terms = _terms(context_of(request), [received.body])
    changed = await _change(request, received.client, terms)
    (pair,) = terms
    return _dictionary(pair, changed.dictionaries[pair])


async def delete_dictionary(request: Request) -> Response:
    """Delete the entries of a glossary for one language pair."""
    glossary, pair = await _glossary_of_path(request), _queried_pair(request)
    if pair not in glossary.dictionaries:
        raise _not_found()
    client = client_of(request, context_of(request))
    await _change(request, client, {pair: None})
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete a glossary."""
    context = context_of(request)
    client, id_ = client_of(request, context), request.path_params["glossary_id"]
    if not await in_background(partial(context.glossaries.delete, client, id_)):
        raise _not_found()
    return Response(status_code=204)


async def stored_glossary(context: Context, client: str, name: str, field: str) -> StoredGlossary:
    """Returns a stored glossary by its id or name.

    Raises:
        RequestError: If the client has none, naming the field.
    """
    glossary = await in_background(partial(context.glossaries.find, client, name))
    if glossary is None:
        raise _not_found(field)
    return glossary


async def glossary_of(context: Context, client: str, body: schemas.DeepLOptions) -> StoredGlossary | None:
    """Returns the glossary that a request names; of several, the first that has a term counts.

    Raises:
        RequestError: If there is no such glossary, or the request names no source language.
    """
    field = "glossary_id" if body.glossary_id else "glossary_ids"
    names = [body.glossary_id] if body.glossary_id else body.glossary_ids
    if not names:
        return None
    if body.source_lang is None:
        raise RequestError("unsupported_request", f"`{field}` needs `source_lang`", field)
    first, *others = [await stored_glossary(context, client, name, field) for name in names]
    dictionaries = dict(first.dictionaries)
    for pair, terms in ((pair, terms) for other in others for pair, terms in other.dictionaries.items()):
        known = dictionaries.get(pair)
        dictionaries[pair] = Glossary(terms.entries | known.entries) if known else terms
    return StoredGlossary(first.id, first.name, first.owner, first.created, dictionaries)


def language_of(catalogue: Catalogue, field: str, code: str) -> str:
    """Returns our code of a language; an error names the field as this API calls it."""
    try:
        return catalogue.language(field, code)
    except InputError as error:
        raise with_deepl_names(error) from None


async def _create(
    request: Request, client: str, name: str, dictionaries: Sequence[schemas.DeepLDictionaryRequest]
) -> StoredGlossary:
    context = context_of(request)
    terms = _terms(context, dictionaries)
    return await in_background(partial(context.glossaries.create, client, name, terms))


async def _list(request: Request) -> Sequence[StoredGlossary]:
    context = context_of(request)
    return await in_background(partial(context.glossaries.all, client_of(request, context)))


async def _glossary_of_path(request: Request) -> StoredGlossary:
    context = context_of(request)
    id_ = request.path_params["glossary_id"]
    glossary = await stored_glossary(context, client_of(request, context), id_, "glossary_id")
    if glossary.id != id_:
        raise _not_found()
    return glossary


async def _glossary_of_one_pair(request: Request) -> StoredGlossary:
    glossary = await _glossary_of_path(request)
    if len(glossary.dictionaries) != 1:
        raise _not_found()
    return glossary


async def _change(
    request: Request,
    client: str,
    dictionaries: Mapping[Pair, Glossary | None],
    *,
    name: str | None = None,
    merges: bool = False,
) -> StoredGlossary:
    change = context_of(request).glossaries.change
    id_ = request.path_params["glossary_id"]
    work = partial(change, client, id_, dictionaries=dictionaries, name=name, merges=merges)
    glossary = await in_background(work)
    if glossary is None:
        raise _not_found()
    return glossary


def _not_found(field: str | None = None) -> RequestError:
    return RequestError("not_found", "there is no such glossary", field)


def _terms(context: Context, dictionaries: Sequence[schemas.DeepLDictionaryRequest]) -> dict[Pair, Glossary]:
    """Returns the terms of each language pair.

    Raises:
        InputError: If a language is unknown, or entries are not as the format says.
    """
    catalogue = context.service.catalogue
    terms: dict[Pair, Glossary] = {}
    for each in dictionaries:
        source = language_of(catalogue, "source", each.source_lang)
        target = language_of(catalogue, "target", each.target_lang)
        entries = read_entries(each.entries, "entries", is_csv=each.entries_format == "csv")
        terms[canonical_code(source), canonical_code(target)] = Glossary(entries)
    return terms


def _queried_pair(request: Request) -> Pair:
    source, target = (request.query_params.get(name, "") for name in ("source_lang", "target_lang"))
    return canonical_code(source), canonical_code(target)


def _tsv(terms: Glossary) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in terms.entries.items())


def _described(glossary: StoredGlossary) -> schemas.DeepLGlossary:
    ((pair, terms),) = glossary.dictionaries.items()
    return schemas.DeepLGlossary(
        glossary_id=glossary.id,
        name=glossary.name,
        ready=True,
        source_lang=pair[0],
        target_lang=pair[1],
        creation_time=glossary.created,
        entry_count=len(terms.entries),
    )


def _described_multilingual(glossary: StoredGlossary) -> schemas.DeepLMultilingualGlossary:
    return schemas.DeepLMultilingualGlossary(
        glossary_id=glossary.id,
        name=glossary.name,
        creation_time=glossary.created,
        dictionaries=[_dictionary(pair, terms) for pair, terms in glossary.dictionaries.items()],
    )


def _dictionary(pair: Pair, terms: Glossary) -> schemas.DeepLDictionary:
    return schemas.DeepLDictionary(source_lang=pair[0], target_lang=pair[1], entry_count=len(terms.entries))


_V2, _V3 = "/v2/glossaries", "/v3/glossaries"
_V2_ID, _V3_ID = f"{_V2}/{{glossary_id}}", f"{_V3}/{{glossary_id}}"
_MANY, _MANY_REQUEST = schemas.DeepLMultilingualGlossary, schemas.DeepLMultilingualGlossaryRequest
_ENTRIES, _DICTIONARY = schemas.DeepLDictionaryEntries, schemas.DeepLDictionary
_DICTIONARIES, _DICTIONARY_REQUEST = f"{_V3_ID}/dictionaries", schemas.DeepLDictionaryRequest
_OF_A_PAIR: Final = "the entries of a language pair"

OPERATIONS: Final = (
    Operation(
        "/v2/glossary-language-pairs",
        language_pairs,
        "GET",
        tag=_TAG,
        summary="List languages with glossaries",
        answer=schemas.DeepLGlossaryPairs,
        errors=(401, 403, 500, 503),
    ),
    *(
        Operation(
            path,
            endpoint,
            method,
            tag=_TAG,
            summary=summary,
            body=body,
            answer=answer,
            errors=(400, 401, 403, 404, 413, 415, 429, 500, 503) if body else (401, 403, 404, 500, 503),
            parameters=_PAIR_PARAMETERS if endpoint in (multilingual_entries, delete_dictionary) else (),
        )
        for method, path, endpoint, summary, body, answer in (
            ("POST", _V2, create, "Store a glossary", schemas.DeepLGlossaryRequest, schemas.DeepLGlossary),
            ("GET", _V2, list_all, "List glossaries", None, schemas.DeepLGlossaries),
            ("GET", _V2_ID, get, "Describe a glossary", None, schemas.DeepLGlossary),
            ("GET", f"{_V2_ID}/entries", entries, "Fetch the entries of a glossary", None, _TSV),
            ("DELETE", _V2_ID, delete, "Delete a glossary", None, None),
            ("POST", _V3, create_multilingual, "Store a glossary", _MANY_REQUEST, _MANY),
            ("GET", _V3, list_multilingual, "List glossaries", None, schemas.DeepLMultilingualGlossaries),
            ("GET", _V3_ID, get_multilingual, "Describe a glossary", None, _MANY),
            ("PATCH", _V3_ID, change, "Rename or extend a glossary", schemas.DeepLGlossaryChange, _MANY),
            ("DELETE", _V3_ID, delete, "Delete a glossary", None, None),
            ("GET", f"{_V3_ID}/entries", multilingual_entries, f"Fetch {_OF_A_PAIR}", None, _ENTRIES),
            (
                "PUT",
                _DICTIONARIES,
                replace_dictionary,
                f"Replace {_OF_A_PAIR}",
                _DICTIONARY_REQUEST,
                _DICTIONARY,
            ),
            ("DELETE", _DICTIONARIES, delete_dictionary, f"Delete {_OF_A_PAIR}", None, None),
        )
    ),
)
