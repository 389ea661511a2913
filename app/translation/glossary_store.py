"""② Stored glossaries: one JSON file each, in a folder that several processes and machines may share."""

import dataclasses
import json
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from app.admission.keys import owner_of
from model.checkpoint.card import Pair
from model.errors import InputError
from model.files import write_text_atomically
from model.text.glossary import Glossary
from model.text.languages import canonical_code

MAX_GLOSSARIES: Final = 1_000
"""Most glossaries of one owner."""
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEPT: Final = 64  # files that are not read again until they change


@dataclass(frozen=True, eq=False)
class StoredGlossary:
    """A glossary with a name.

    Attributes:
        id: A UUID.
        name: Given by its owner.
        owner: The API key's owner, or empty if it belongs to all clients without a key.
        created: When, in ISO 8601.
        dictionaries: The terms of each pair of bare language codes.
    """

    id: str
    name: str
    owner: str
    created: str
    dictionaries: Mapping[Pair, Glossary]

    def of_pair(self, source: str, target: str) -> Glossary | None:
        """Returns the terms from one language to another; None if there are none."""
        return self.dictionaries.get((canonical_code(source), canonical_code(target)))


class GlossaryStore:
    """The glossaries in a folder. Its methods block and are thread-safe.

    A client sees the glossaries of its API key; clients without a key share those created without one.

    Args:
        folder: The folder, made when the first glossary is stored; None if no glossaries can be stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()  # of changes
        self._load = lru_cache(maxsize=_KEPT)(_load)

    def create(self, client: str, name: str, dictionaries: Mapping[Pair, Glossary]) -> StoredGlossary:
        """Store a new glossary.

        Args:
            client: Name of the client.
            name: Name of the glossary.
            dictionaries: Its terms.

        Raises:
            InputError: If glossaries cannot be stored, or the client has too many.
            OSError: If the file cannot be written.
        """
        with self._lock:
            number = len(self.all(client))
            if number >= MAX_GLOSSARIES:
                raise InputError(f"there can be at most {MAX_GLOSSARIES} glossaries, and there are {number}")
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            glossary = StoredGlossary(str(uuid.uuid4()), name, owner_of(client), now, dictionaries)
            self._save(glossary)
        return glossary

    def all(self, client: str) -> Sequence[StoredGlossary]:
        """Returns the glossaries of a client, the oldest first."""
        paths = self._folder.glob("*.json") if self._folder is not None else ()
        found = (self._read(path) for path in paths)
        own = (glossary for glossary in found if glossary is not None and glossary.owner == owner_of(client))
        return sorted(own, key=lambda glossary: (glossary.created, glossary.id))

    def find(self, client: str, name: str) -> StoredGlossary | None:
        """Returns the glossary of this id, else the oldest of this name; None if the client has none."""
        if self._folder is not None and _ID.fullmatch(name):
            glossary = self._read(self._path(name))
            return glossary if glossary is not None and glossary.owner == owner_of(client) else None
        return next((glossary for glossary in self.all(client) if glossary.name == name), None)

    def change(
        self,
        client: str,
        id_: str,
        *,
        dictionaries: Mapping[Pair, Glossary | None],
        name: str | None = None,
        merges: bool = False,
    ) -> StoredGlossary | None:
        """Change a glossary, and return it; None if the client has none of this id.

        Args:
            client: Name of the client.
            id_: The id.
            dictionaries: New terms of some language pairs; None removes those of a pair.
            name: A new name.
            merges: Whether the new terms of a pair are added to those that it has.
        """
        with self._lock:
            glossary = self._of_id(client, id_)
            if glossary is None:
                return None
            changed = dict(glossary.dictionaries)
            for pair, terms in dictionaries.items():
                if terms is None:
                    changed.pop(pair, None)
                elif merges and pair in changed:
                    changed[pair] = Glossary(changed[pair].entries | terms.entries)
                else:
                    changed[pair] = terms
            glossary = dataclasses.replace(glossary, name=name or glossary.name, dictionaries=changed)
            self._save(glossary)
        return glossary

    def delete(self, client: str, id_: str) -> bool:
        """Delete a glossary; returns whether the client had one of this id."""
        with self._lock:
            is_there = self._of_id(client, id_) is not None
            if is_there:
                self._path(id_).unlink(missing_ok=True)
        return is_there

    def _of_id(self, client: str, id_: str) -> StoredGlossary | None:
        return self.find(client, id_) if _ID.fullmatch(id_) else None

    def _path(self, id_: str) -> Path:
        if self._folder is None:
            raise InputError("glossaries cannot be stored: GLOSSARY_FOLDER names no folder")
        return self._folder / f"{id_}.json"

    def _save(self, glossary: StoredGlossary) -> None:
        terms = [[*pair, terms.entries] for pair, terms in glossary.dictionaries.items()]
        values = {field: getattr(glossary, field) for field in ("id", "name", "owner", "created")}
        text = json.dumps(values | {"dictionaries": terms}, ensure_ascii=False)
        path = self._path(glossary.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(path, text)

    def _read(self, path: Path) -> StoredGlossary | None:
        try:
            return self._load(path, path.stat().st_mtime_ns)
        except FileNotFoundError:  # deleted meanwhile
            return None


def _load(path: Path, _mtime: int) -> StoredGlossary:
    values = json.loads(path.read_text("utf-8"))
    dictionaries = {(source, target): Glossary(terms) for source, target, terms in values["dictionaries"]}
    return StoredGlossary(**values | {"dictionaries": dictionaries})
