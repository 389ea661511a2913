"""Drives a runner as an engine does: sentences arrive, some are given up, all others finish; counts rows."""

from collections.abc import Collection, Mapping, Sequence

from model.config import TransformerConfig
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.runner import Interrupt, Progress, Result, Runner
from model.decoding.sentence import Sentence


def run_through(
    runner: Runner,
    config: TransformerConfig,
    arrivals: Mapping[int, Sequence[DecodeRequest]],
    cancelled: Mapping[int, Collection[int]] | None = None,
) -> tuple[list[Result | None], list[list[tuple[int, ...]]]]:
    """Step a runner until nothing is left.

    Args:
        runner: Idle.
        config: Of its network.
        arrivals: Requests by the number of steps done before they are admitted, each time together.
        cancelled: Numbers of requests, in order of arrival, that are then dropped if they still run.

    Returns:
        For each request in order of arrival its result, None if it was dropped; and what was agreed
        on after each of its steps.
    """
    sentences: list[Sentence] = []
    results: dict[Sentence, Result] = {}
    agreed: dict[Sentence, list[tuple[int, ...]]] = {}
    running: list[Sentence] = []
    step, last = 0, max(arrivals)
    while running or step <= last:
        if arrivals.get(step):
            arrived = [Sentence.admit(request, config) for request in arrivals[step]]
            runner.admit(arrived)
            sentences += arrived
            running += arrived
        gone = [s for i, s in enumerate(sentences) if i in (cancelled or {}).get(step, ()) and s in running]
        runner.drop(gone)
        running = [s for s in running if s not in gone]
        progress = runner.advance(Interrupt(), 1)
        assert [record.sentences for record in progress.steps] == ([len(running)] if running else [])
        results.update(progress.finished)
        running = [s for s in running if s not in results]
        for sentence in running:
            agreed.setdefault(sentence, []).append(runner.stable_prefix(sentence))
        step += 1
    return [results.get(s) for s in sentences], [agreed.get(s, []) for s in sentences]


def finish(runner: Runner) -> dict[Sentence, Result]:
    """The results of what runs."""
    results: dict[Sentence, Result] = {}
    while (progress := runner.advance(Interrupt(), 1000)).steps:
        results.update(progress.finished)
    return results


def watch_rows(engine: DecodingEngine) -> list[int]:
    """A list to which each step of an engine adds its number of rows from now on."""
    rows: list[int] = []
    step = engine.step

    def watched(**options: int) -> Progress:
        progress = step(**options)
        rows.extend(record.rows for record in progress.steps)
        return progress

    engine.step = watched  # type: ignore[method-assign]
    return rows
