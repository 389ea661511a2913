"""② ⑨ Files: their texts are translated in portions, and the translated files are kept for a while."""

import asyncio
import dataclasses
import logging
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
from app.errors import DrainingError, OverloadedError
from app.translation.requests import TranslationRequest
from app.translation.service import TranslationService
from model.errors import TextTooLongError
from model.text.formats.formats import read_file

logger = logging.getLogger(__name__)

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
    request: TranslationRequest,
    *,
    max_unpacked_bytes: int,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> bytes:
    """Translate a file.

    Args:
        service: Translates its texts.
        content: Its bytes.
        suffix: Says what it is.
        request: How to translate its texts, of which it has none yet; a source of None is detected from the
            beginning of the file.
        max_unpacked_bytes: Most bytes of the parts of an archive.
        progress: Is told after each portion the characters that are done, and all.

    Raises:
        InputError: If the file, a language or pair cannot be served.
        UnavailableError: If there is no capacity for it now.
        DeadlinePassedError: If the deadline came first.
    """
    file = await in_background(partial(read_file, suffix, content, request.target, max_unpacked_bytes))
    source = request.source
    if source is None:
        found = await service.detect(file.sample, request.client, request.deadline)
        source = found[0].language
    file = await in_background(lambda: file.in_runs().in_parts(source, request.target, _PORTION_CHARACTERS))
    total, translations = sum(map(len, file.texts)), list[str]()
    progress(0, total)
    # Languages are checked even if there is nothing to translate.
    for texts in list(_portions(file.texts)) or [("",)]:
        portion = dataclasses.replace(
            request,
            texts=tuple(texts),
            fields=(_FIELD,) * len(texts),
            source=source,
            splitting=file.splitting,
            is_mixed=request.source is None,
        )
        try:
            answers = await service.translate(portion)
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
    """Translated files under names that cannot be guessed, in private folders, for some seconds.

    Its methods are for the event loop only.

    Args:
        max_bytes: Most bytes of all files.
        seconds: How long a file is kept.
        folder: Where several processes find each other's files; None for one process, which makes a folder
            when it is needed.
        index: Number of this process.
    """

    def __init__(self, max_bytes: int, seconds: float, folder: Path | None = None, index: int = 0) -> None:
        self._bytes = Quota(max_bytes)
        self._seconds = seconds
        self._folder = folder
        self._index = str(index)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._is_closed = False
        if folder is not None:
            # The process before this one may have left some.
            shutil.rmtree(folder / self._index, ignore_errors=True)
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
        name = secrets.token_urlsafe(24) + suffix
        path = self.new_path("files", name)
        self._bytes.take(cost, client)
        expiry = asyncio.get_running_loop().call_later(self._seconds, self.remove, name)
        self._expiries[name] = expiry, partial(self._bytes.give_back, cost, client)
        try:
            await in_background(partial(_write, path, content))
        except BaseException:
            self.remove(name)
            raise
        return name

    def new_path(self, kind: str, name: str) -> Path:
        """Returns where this process puts something of a kind, in a private folder.

        Raises:
            DrainingError: If the store is closed: nothing would delete the file.
        """
        if self._is_closed:
            raise DrainingError
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="dragoman-", ignore_cleanup_errors=True)
            self._folder = Path(self._temporary.name)
        folder = self._folder / self._index / kind
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / name

    def path(self, name: str, kind: str = "files") -> Path | None:
        """Returns where a process has put something; None if there is nothing of this name and kind."""
        if self._folder is None or _NAME.fullmatch(name) is None:
            return None
        return next(self._folder.glob(f"*/{kind}/{name}"), None)

    def remove(self, name: str) -> None:
        """Delete a file, if it is there; the process that has kept it gives its bytes back."""
        if (kept := self._expiries.pop(name, None)) is not None:
            expiry, give_back = kept
            expiry.cancel()
            give_back()
        if (path := self.path(name)) is not None:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all files, and keep no further ones."""
        self._is_closed = True
        for name in list(self._expiries):
            self.remove(name)
        if self._temporary is not None:
            self._temporary.cleanup()
        elif self._folder is not None:
            shutil.rmtree(self._folder / self._index, ignore_errors=True)


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
        path: Where its state is, for all processes; nothing is there once the job is cancelled.
        done: Characters that are translated.
        total: All characters.
        name: Where the result is, or was, in the store; None before it is done.
        failure: Why there is no result; None if there is, or may be.
    """

    client: str
    key: str
    suffix: str
    began: float
    path: Path
    done: int = 0
    total: int = 0
    name: str | None = None
    failure: Exception | None = None

    def progress(self, done: int, total: int) -> None:
        """Note how many characters are translated.

        Raises:
            CancelledError: If another process has cancelled the job.
        """
        self.done, self.total = done, total
        if not self.path.exists():
            raise asyncio.CancelledError
        self.save()

    def save(self) -> None:
        """Write the state."""
        unfinished = self.path.with_suffix(".new")
        try:
            unfinished.write_bytes(pickle.dumps(self))
            unfinished.replace(self.path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise

    @property
    def seconds_left(self) -> int:
        """About how long it will take, at least 1."""
        spent = time.monotonic() - self.began
        return math.ceil(spent / self.done * (self.total - self.done)) + 1 if self.done else 1


def _saved_job(path: Path) -> FileJob | None:
    """Returns the job whose state a process of this service has written; None if there is none."""
    try:
        job: FileJob = pickle.loads(path.read_bytes())  # noqa: S301 - private to these processes
    except FileNotFoundError:
        return None
    return job


class FileJobs:
    """The files that are translated in the background; for the event loop only.

    Args:
        store: Where results are kept, and the states of the jobs.
        max_bytes: Most bytes of the files in progress.
        seconds: How long a job is known.
        hold_models: Keeps the models of the request that starts a job, until its result is called.
    """

    def __init__(
        self,
        store: FileStore,
        max_bytes: int,
        seconds: float,
        *,
        hold_models: Callable[[], Callable[[], None]],
    ) -> None:
        self._store = store
        self._hold_models = hold_models
        self._seconds = seconds
        self._bytes = Quota(max_bytes)
        self._count = Quota(_MAX_JOBS)
        self._jobs: dict[str, tuple[FileJob, asyncio.Task[None]]] = {}

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
        path = self._store.new_path("jobs", name)
        job = FileJob(client, secrets.token_urlsafe(24), suffix, time.monotonic(), path)
        job.save()
        self._bytes.take(size, client)
        self._count.take(1, client)
        task = asyncio.create_task(self._run(job, work))
        self._jobs[name] = job, task
        release_models = self._hold_models()
        task.add_done_callback(lambda _: self._bytes.give_back(size, client))
        task.add_done_callback(lambda _: release_models())
        asyncio.get_running_loop().call_later(self._seconds, self._forget, name)
        return name, job

    async def _run(self, job: FileJob, work: Callable[[FileJob], Coroutine[object, object, bytes]]) -> None:
        try:
            job.name = await self._store.add(await work(job), job.suffix, job.client)
        except Exception as failure:
            # Its frames would keep the file.
            failure.__traceback__ = failure.__context__ = failure.__cause__ = None
            job.failure = failure
        if job.path.exists():
            try:
                job.save()
            except OSError as fault:
                # A client that asks again and again learns that there will be no result.
                logger.error("the state of a document cannot be written", exc_info=fault)
                job.path.unlink(missing_ok=True)

    def find(self, name: str, key: str) -> FileJob | None:
        """Returns a job of any process; None if there is none of this name and key."""
        path = self._store.path(name, "jobs")
        job = None if path is None else _saved_job(path)
        return job if job is not None and secrets.compare_digest(job.key.encode(), key.encode()) else None

    def cancel(self, name: str, job: FileJob) -> None:
        """End a job that `find` returned, and forget it; its result, if there is one, is deleted."""
        if job.name is not None:
            self._store.remove(job.name)
        job.path.unlink(missing_ok=True)
        self._forget(name)

    def close(self) -> None:
        """Cancel all jobs."""
        for name in list(self._jobs):
            self._forget(name)

    def _forget(self, name: str) -> None:
        if (known := self._jobs.pop(name, None)) is not None:
            job, task = known
            self._count.give_back(1, job.client)
            job.path.unlink(missing_ok=True)
            task.cancel()
