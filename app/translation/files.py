"""② ⑨ Files: their texts are translated in portions, and the translated files are kept for a while."""

import asyncio
import math
import os
import pickle
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from app.admission.quota import Quota
from app.background import in_background
from app.errors import OverloadedError
from app.translation.glossary_store import StoredGlossary
from app.translation.jobs import TranslationRequest
from app.translation.service import TranslationService
from model.errors import TextTooLongError
from model.text.formats.formats import read_file

# A portion is queued as one request: small enough for the other clients, large enough for full batches.
_PORTION_CHARACTERS: Final = 4_000
_PORTION_TEXTS: Final = 64
# Bytes that the smallest file counts as, so that many small files cannot fill a disk.
_LEAST_COST: Final = 4_096
_MAX_JOBS: Final = 1_024
_NAME: Final = re.compile(r"[\w-]+(\.\w+)?", re.ASCII)
_FIELD: Final = "file"


async def translate_file(
    service: TranslationService,
    content: bytes,
    suffix: str,
    *,
    source: str | None,
    target: str,
    client: str,
    deadline: float,
    max_unpacked_bytes: int,
    glossary: StoredGlossary | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> bytes:
    """Translate a file.

    Args:
        service: Translates its texts.
        content: Its bytes.
        suffix: Says what it is.
        source: Its language; None detects it from its beginning.
        target: Language to translate into.
        client: Name of the client.
        deadline: When the result becomes worthless, seconds of the monotonic clock.
        max_unpacked_bytes: Most bytes of the parts of an archive.
        glossary: Terms with a given translation.
        progress: Is told after each portion the characters that are done, and all.

    Raises:
        InputError: If the file, a language or pair cannot be served.
        UnavailableError: If there is no capacity for it now.
        DeadlinePassedError: If the deadline came first.
    """
    file = await in_background(partial(read_file, suffix, content, target, max_unpacked_bytes))
    is_mixed = source is None
    if source is None:
        found = await service.detect(file.sample, client, deadline)
        source = found[0].language
    total, translations = sum(map(len, file.texts)), list[str]()
    progress(0, total)
    # Languages are checked even if there is nothing to translate.
    for texts in list(_portions(file.texts)) or [("",)]:
        request = TranslationRequest(
            texts=tuple(texts),
            fields=(_FIELD,) * len(texts),
            source=source,
            target=target,
            deadline=deadline,
            client=client,
            markup=file.markup,
            splitting=file.splitting,
            glossary=glossary,
            is_mixed=is_mixed,
        )
        try:
            answers = await service.translate(request)
        except TextTooLongError as error:
            raise TextTooLongError(_FIELD, error.limit_name, error.limit, error.value) from None
        translations += [answer.text for answer in answers]
        progress(sum(map(len, file.texts[: len(translations)])), total)
    return await in_background(partial(file.rebuild, translations[: len(file.texts)]))


def _portions(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    begin, size = 0, 0
    for place, text in enumerate(texts):
        if place > begin and (place - begin == _PORTION_TEXTS or size + len(text) > _PORTION_CHARACTERS):
            yield texts[begin:place]
            begin, size = place, 0
        size += len(text)
    if begin < len(texts):
        yield texts[begin:]


class FileStore:
    """Translated files under names that cannot be guessed, in a private folder, for some seconds.

    Its methods are for the event loop only.

    Args:
        max_bytes: Most bytes of all files.
        seconds: How long a file is kept.
        folder: The folder, if several processes give each other's files; theirs are next to it.
    """

    def __init__(self, max_bytes: int, seconds: float, folder: Path | None = None) -> None:
        self._bytes = Quota(max_bytes)
        self._seconds = seconds
        self._folder = folder
        self._is_shared = folder is not None
        if folder is not None:
            # The process before this one may have left some.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self._expiries: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}

    async def add(self, content: bytes, suffix: str, client: str) -> str:
        """Keep a file.

        Returns:
            Its name.

        Raises:
            OverloadedError: If the files, or those of the client, have too many bytes.
        """
        cost = max(len(content), _LEAST_COST)
        if not self._bytes.fits(cost, client):
            raise OverloadedError(int(self._seconds) or 1)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dragoman-"))
        self._bytes.take(cost, client)
        name = secrets.token_urlsafe(24) + suffix
        path = self._folder / name
        expiry = asyncio.get_running_loop().call_later(self._seconds, self.remove, name)
        self._expiries[name] = expiry, partial(self._bytes.take, -cost, client)
        try:
            await in_background(partial(_write, path, content))
        except BaseException:
            self.remove(name)
            raise
        return name

    def path(self, name: str) -> Path | None:
        """Returns where a file is; None if there is none of this name."""
        if self._folder is not None and name in self._expiries and not self._is_shared:
            return self._folder / name
        return self._shared_path(name)

    def _shared_path(self, name: str) -> Path | None:
        """Returns where a file of any process is; each of them may have deleted it."""
        if self._folder is None or not self._is_shared or _NAME.fullmatch(name) is None:
            return None
        places = (folder / name for folder in self._folder.parent.iterdir())
        return next((place for place in places if place.is_file()), None)

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        if (kept := self._expiries.pop(name, None)) is None:
            # The other process gives the bytes back when the file would have expired.
            if (path := self._shared_path(name)) is not None:
                path.unlink(missing_ok=True)
            return
        expiry, give_back = kept
        expiry.cancel()
        give_back()
        if self._folder is not None:
            (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all files."""
        for name in list(self._expiries):
            self.remove(name)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


@dataclass(eq=False)
class FileJob:
    """A file that is translated in the background.

    Attributes:
        client: Name of its client.
        key: Which only its client knows.
        suffix: Of its name.
        began: When it was started, seconds of the monotonic clock.
        done: Characters that are translated.
        total: All characters.
        name: Where the result is in the store; None before it is done.
        failure: Why there is no result; None if there is, or may be.
        path: Where the state is for other processes; None for one process.
    """

    client: str
    key: str
    suffix: str
    began: float
    done: int = 0
    total: int = 0
    name: str | None = None
    failure: Exception | None = None
    path: Path | None = None

    def progress(self, done: int, total: int) -> None:
        """Note how many characters are translated.

        Raises:
            CancelledError: If another process has cancelled the job.
        """
        self.done, self.total = done, total
        if self.is_cancelled:
            raise asyncio.CancelledError
        self.save()

    @property
    def is_cancelled(self) -> bool:
        """Returns whether another process has removed the state, which is how it cancels a job."""
        return self.path is not None and not self.path.exists()

    def save(self) -> None:
        """Write the state for the other processes, if there are any."""
        if self.path is not None:
            failure = self.failure and (type(self.failure), self.failure.args, vars(self.failure))
            state = pickle.dumps(vars(self) | {"failure": failure})
            unfinished = self.path.with_suffix(".new")
            unfinished.write_bytes(state)
            unfinished.replace(self.path)

    @property
    def is_done(self) -> bool:
        """Returns whether there is, or was, a result."""
        return self.name is not None

    @property
    def seconds_left(self) -> int:
        """About how long it will take, at least 1."""
        spent = time.monotonic() - self.began
        return math.ceil(spent / self.done * (self.total - self.done)) + 1 if self.done else 1


def _saved_job(path: Path) -> FileJob | None:
    """Returns the state that another process of this service has written; None if there is none."""
    try:
        state = pickle.loads(path.read_bytes())  # noqa: S301 - the folder is private to these processes
    except FileNotFoundError:
        return None
    if state["failure"] is not None:
        # Not by their constructors, whose arguments are not kept.
        kind, arguments, attributes = state["failure"]
        state["failure"] = kind.__new__(kind, *arguments)
        vars(state["failure"]).update(attributes)
    return FileJob(**state)


class FileJobs:
    """The files that are translated in the background; for the event loop only.

    Args:
        store: Where results are kept.
        max_bytes: Most bytes of the files in progress.
        seconds: How long a job is known.
        folder: Where several processes keep the states of their jobs, for each other; None for one process.
    """

    def __init__(self, store: FileStore, max_bytes: int, seconds: float, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        if folder is not None:
            folder.mkdir(exist_ok=True)
        self._seconds = seconds
        self._bytes = Quota(max_bytes)
        self._count = Quota(_MAX_JOBS)
        self._jobs: dict[str, FileJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(
        self,
        work: Callable[[FileJob], Coroutine[object, object, bytes]],
        suffix: str,
        client: str,
        size: int,
    ) -> tuple[str, FileJob]:
        """Start to translate a file.

        Args:
            work: Translates it, and tells its job the progress.
            suffix: Of its name.
            client: Name of the client.
            size: Bytes of the file.

        Returns:
            The name of the job, and the job.

        Raises:
            OverloadedError: If there are too many jobs, in total or of this client.
        """
        if not (self._bytes.fits(size, client) and self._count.fits(1, client)):
            raise OverloadedError(5)
        name = secrets.token_urlsafe(24)
        job = FileJob(client, secrets.token_urlsafe(24), suffix, time.monotonic())
        if self._folder is not None:
            job.path = self._folder / name
            job.save()
        self._bytes.take(size, client)
        self._count.take(1, client)
        self._jobs[name] = job
        task = asyncio.create_task(self._run(job, work))
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._bytes.take(-size, client))
        asyncio.get_running_loop().call_later(self._seconds, self._forget, name)
        return name, job

    async def _run(self, job: FileJob, work: Callable[[FileJob], Coroutine[object, object, bytes]]) -> None:
        try:
            job.name = await self._store.add(await work(job), job.suffix, job.client)
        except Exception as failure:
            # Its frames would keep the file.
            failure.__traceback__ = failure.__context__ = failure.__cause__ = None
            job.failure = failure
        if not job.is_cancelled:
            job.save()

    def find(self, name: str, key: str) -> FileJob | None:
        """Returns a job; None if there is none of this name and key."""
        job = self._find(name)
        return job if job is not None and secrets.compare_digest(job.key.encode(), key.encode()) else None

    def _find(self, name: str) -> FileJob | None:
        """Returns a job of this process or of another one."""
        job = self._jobs.get(name)
        if job is not None and job.is_cancelled:
            return None
        if job is None and self._folder is not None and _NAME.fullmatch(name):
            return _saved_job(self._folder / name)
        return job

    def cancel(self, name: str) -> None:
        """End a job and forget it; its result, if there is one, is deleted."""
        if (job := self._find(name)) is not None:
            if job.name is not None:
                self._store.remove(job.name)
            if job.path is not None:
                job.path.unlink(missing_ok=True)
        self._forget(name)

    def close(self) -> None:
        """Cancel all jobs."""
        for name in list(self._jobs):
            self._forget(name)

    def _forget(self, name: str) -> None:
        if (job := self._jobs.pop(name, None)) is not None:
            self._count.take(-1, job.client)
            if job.path is not None:
                job.path.unlink(missing_ok=True)
        if (task := self._tasks.pop(name, None)) is not None:
            task.cancel()
