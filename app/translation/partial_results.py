"""⑥ ⑦ ⑧ Translations while they grow: the part that is certain and will not change."""

import asyncio
from collections.abc import Sequence
from itertools import islice

from app.translation.catalogue import Hop
from app.translation.requests import Text, TextJob
from model.decode_request import Hypothesis
from model.text.tokenizer import stable_prefix
from model.translation.document_translation import DocumentTranslation
from model.translation.result import finished_text


class PartialResults:
    """Follows the sentences of one request; for the event loop only. Builds texts only in `take`.

    Attributes:
        changed: Set when a text may have grown; the waiting task clears it.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._results: list[_PartialResult] = []
        self._places: list[tuple[_PartialResult, _PartialJob, int]] = []

    def begin(self, texts: Sequence[Text]) -> None:
        """Follow the sentences of the next hop of these texts, in order; only a last hop is shown."""
        self._results = list(map(_PartialResult, texts))
        self._places = [
            (result, job, place)
            for result in self._results
            for job in result.jobs
            for place in range(job.num_sentences)
        ]

    def grew(self, index: int, token_ids: Sequence[int]) -> None:
        """See ResultListener."""
        result, job, place = self._places[index]
        if job.is_shown:
            job.token_ids[place] = token_ids
            result.has_grown = True
            self.changed.set()

    def finished(self, index: int, hypotheses: Sequence[Hypothesis]) -> None:
        """See ResultListener."""
        if hypotheses:
            _, job, place = self._places[index]
            job.finished[place] = hypotheses[0]
            self.grew(index, hypotheses[0].token_ids)

    def take(self) -> list[tuple[int, str]]:
        """The texts that have grown since the last call: the index, and all that is certain of the text."""
        grown = ((index, result.take()) for index, result in enumerate(self._results))
        return [(index, text) for index, text in grown if text is not None]


class _PartialResult:
    """The certain part of one text.

    Sentences are decoded in parallel, but shown in order: the finished ones, and the beginning of the next
    one. A sentence with tags or a string to keep is only shown at its end, as it gets them then.
    """

    def __init__(self, text: Text) -> None:
        self._text = text
        self.jobs = list(map(_PartialJob, text.jobs))
        self.has_grown = False
        self._shown = ""

    def take(self) -> str | None:
        """The certain part of the text, if it is longer than before."""
        if not self.has_grown:
            return None
        self.has_grown = False
        runs: list[Sequence[str]] = []
        for job in self.jobs:
            runs.append(job.certain_runs(is_last=job is self.jobs[-1]))
            if not job.is_finished:
                break
        text = self._text.layout.beginning(self._text.joined(runs))
        if len(text) <= len(self._shown) or not text.strip():
            return None
        self._shown = text
        return text


class _PartialJob:
    """The certain part of a text's part in one language.

    Attributes:
        num_sentences: Sentences of its next hop.
        is_shown: Whether no other hop comes after that.
        token_ids: With which the translation of a sentence begins.
        finished: Whole translations of sentences.
    """

    def __init__(self, job: TextJob) -> None:
        self.num_sentences = len(job.requests)
        self.is_shown = len(job.remaining) < 2
        self.token_ids: dict[int, Sequence[int]] = {}
        self.finished: dict[int, Hypothesis] = {}
        self._job = job
        self._passages = job.passages
        self._sources = [sentence for passage in job.passages for sentence in passage.sentences]
        self._hop = job.remaining[0] if job.remaining else None
        self._texts: list[str] = []

    @property
    def is_finished(self) -> bool:
        """Returns whether all of its translation is certain."""
        return self.is_shown and len(self._texts) == len(self._sources)

    def certain_runs(self, *, is_last: bool) -> Sequence[str]:
        """The runs up to the end of what is certain; `is_last` says whether no other job follows."""
        if self._hop is None:
            return list(map(str, self._job.runs))
        if not self.is_shown:
            return []
        texts = self._certain(self._hop)
        return _rebuilt_runs(self._passages, texts, is_whole=self.is_finished and not is_last)

    def _certain(self, hop: Hop) -> list[str]:
        tokenizer, target = hop.model.tokenizer, hop.pair[1]
        while (place := len(self._texts)) in self.finished:
            text = finished_text(self._sources[place], self.finished[place], target, tokenizer)
            self._texts.append(text)
        if place not in self.token_ids or self._sources[place].kept or self._sources[place].tags:
            return self._texts
        beginning = stable_prefix(tokenizer.decode(self.token_ids[place]))
        text = self._sources[place].restore_casing(beginning, target)
        return [*self._texts, text] if text else self._texts


def _rebuilt_runs(
    passages: Sequence[DocumentTranslation], texts: Sequence[str], *, is_whole: bool
) -> list[str]:
    """Returns the runs of a job up to the end of what is certain.

    Args:
        passages: The runs as they were read.
        texts: The certain translations of their first sentences.
        is_whole: Whether those are all of their sentences.
    """
    remaining = iter(texts)
    runs: list[str] = []
    num_remaining = len(texts)
    for passage in passages:
        if num_remaining == 0 and not is_whole:
            break
        count = min(num_remaining, len(passage.requests))
        num_remaining -= count
        is_last = num_remaining == 0 and not is_whole
        runs.append(_rebuilt_run(passage, list(islice(remaining, count)), is_last=is_last))
    return runs


def _rebuilt_run(passage: DocumentTranslation, texts: Sequence[str], *, is_last: bool) -> str:
    document = passage.document
    if not passage.requests:
        return document.rebuild(document.sentences)
    if is_last:
        document = document._replace(
            sentences=document.sentences[: len(texts)],
            gaps=(*document.gaps[: len(texts)], ""),
        )
    return document.rebuild(texts, target_language=passage.target)
