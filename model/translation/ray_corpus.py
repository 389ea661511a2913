"""A corpus on the machines of a Ray cluster: Ray Data reads its files and spreads the shards over workers.

https://docs.ray.io/en/latest/data/data.html. Workers and machines may come and go: Ray gives the shards of
one that ended to another.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import ray

from model.checkpoint.folder import list_checkpoint
from model.errors import InputError
from model.translation.corpus_translation import Corpus, CorpusJob, Shard

# A block of rows is sent on when it has this size: about the texts of one shard.
_BLOCK_BYTES = 2**16
# The share of a core that reading a file takes.
_READING_CPUS = 0.1
# Of joining a cluster.
_ATTEMPTS = 3


def translate_on_ray(corpus: Corpus, job: CorpusJob, address: str) -> dict[str, object]:
    """Translates a corpus on a Ray cluster, and continues what was interrupted.

    Args:
        corpus: Its paths or URLs must lead to the same files on every machine.
        job: Its checkpoint must be at the same path on every machine.
        address: Of the cluster: `ray://HOST:PORT`, `HOST:PORT`, `auto` on one of its machines, or `local` for
            a cluster on this machine alone.

    Returns:
        The report, as `Corpus.report` writes it.

    Raises:
        ConfigError: If the output was begun by another job.
        InputError: If a line cannot be read or translated.
        ConnectionError: If there is no cluster.
    """
    corpus.begin(job, list_checkpoint(job.checkpoint).checksum)
    _join(address)
    began, files = time.monotonic(), corpus.unfinished()
    try:
        # Ray Data cannot be driven from outside the cluster (ray://), so a task on it drives.
        fault: str = ray.get(ray.remote(num_cpus=0)(_translate).remote(corpus, job, files))
    finally:
        ray.shutdown()
    if fault:
        raise InputError(fault)
    return corpus.report([corpus.finish(file) for file in files], time.monotonic() - began)


def _join(address: str) -> None:
    for left in reversed(range(_ATTEMPTS)):
        try:
            ray.init(address=address, log_to_driver=False)
            return
        except ConnectionAbortedError:
            # A fork in Ray's client server sometimes dies before it serves its client (2.60).
            ray.shutdown()
            if not left:
                raise


def _translate(corpus: Corpus, job: CorpusJob, files: list[str]) -> str:
    """Writes the parts of all shards that have none; returns the first fault of a line, or nothing."""
    ray.data.DataContext.get_current().target_max_block_size = _BLOCK_BYTES
    rows = ray.data.from_items([{"file": file} for file in files])
    # With the workers' share of a core, Ray Data would read and translate a file in one task.
    shards = rows.flat_map(partial(_shards, corpus), num_cpus=_READING_CPUS)
    most = max(int(ray.cluster_resources().get("CPU", 1)), 1)
    parts = shards.map(
        _Worker,
        fn_constructor_args=(corpus, job),
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        num_cpus=1,
    )
    return next((row["fault"] for row in parts.iter_rows() if row["fault"]), "")


# Faults are rows, because Ray hides an exception in texts of its own.
def _shards(corpus: Corpus, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the shards of one file as rows, and a line that cannot be read as a fault."""
    try:
        for shard in corpus.shards(row["file"]):
            yield {**asdict(shard), "fault": ""}
    except InputError as error:
        yield {**asdict(Shard(row["file"], 0, 0, [], False)), "fault": str(error)}


class _Worker:
    """Translates shards on one core, in a process of its own."""

    def __init__(self, corpus: Corpus, job: CorpusJob) -> None:
        self._corpus = corpus
        self._job = job
        translator = job.load()
        # One engine is one thread; Ray starts a worker for each core.
        self._translator = replace(translator, engines=translator.engines[:1])

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Translates a shard and writes its part; returns the fault of a line, or nothing."""
        fault = row.pop("fault")
        if not fault:
            shard = Shard(**{**row, "lines": list(row["lines"])})
            try:
                self._corpus.record(shard, self._job.translate(shard, self._translator))
            except InputError as error:
                fault = str(error)
        return {"fault": fault}
