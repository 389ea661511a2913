"""What services are put to: which of them, under which loads, in which turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.options import numbers, several
from benchmarks.reference import reference_translations
from benchmarks.servers import Recipe, Server, dragoman, echo, fastapi_ctranslate2
from benchmarks.service import Showing, changed_answers
from benchmarks.texts import MIXED, STEADY, SizedText, real_texts, word_texts
from benchmarks.traffic import Load, Traffic, send
from benchmarks.work import SEARCHES
from model.checkpoint.card import ModelCard
from model.checkpoint.folder import Checkpoint
from model.cli.options import Command, Option, grouped
from model.errors import UnsupportedLanguageError
from model.training.data.corpus import read_lines

EXACT = "float32"
_KINDS: Mapping[str, Sequence[int]] = {"steady": (STEADY,), "mixed": MIXED}
_WARM_UP_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What the services are put to.

    Attributes:
        kinds: Keys of _KINDS.
        concurrency: Connections.
        workers: Of each service; every number is a service of its own.
        texts: How many different ones.
        seconds: Of each load.
        precision: Of all services.
        search: A key of SEARCHES.
    """

    kinds: Sequence[str]
    concurrency: Sequence[int]
    workers: Sequence[int]
    texts: int
    seconds: float
    precision: str
    search: str


def contest_options(command: Command) -> Command:
    """The fields of Contest as options, as `contest`."""
    options: dict[str, Option] = {
        "kinds": several(
            "texts", "kinds", tuple(_KINDS), tuple(_KINDS), "Texts of 24 tokens, or of 5 to 120."
        ),
        "concurrency": numbers("concurrency", "concurrency", [1, 8, 32, 64], "Connections."),
        "workers": numbers("workers", "workers", [1, 2], "Threads that decode in a service."),
        "texts": click.option(
            "--count",
            "texts",
            default=72,
            show_default=True,
            type=click.IntRange(min=1),
            help="Different texts.",
        ),
        "seconds": click.option(
            "--seconds", default=4.0, show_default=True, help="How long each load lasts in each round."
        ),
        "precision": click.option(
            "--precision",
            default="int8",
            show_default=True,
            type=click.Choice([EXACT, "int8"]),
            help="Of all services; in float32 their answers must be equal.",
        ),
        "search": click.option(
            "--search", default="greedy", show_default=True, type=click.Choice(list(SEARCHES)), help="How."
        ),
    }
    return grouped(command, options, "contest", Contest)


def recipes(folder: Path, exported: Path, card: ModelCard, contest: Contest) -> list[Recipe]:
    """Ours and CTranslate2's for each number of workers, then an echo."""
    search = card.options(SEARCHES[contest.search])
    found = []
    for workers in contest.workers:
        found.append(dragoman(folder, workers=workers, precision=contest.precision))
        found.append(
            fastapi_ctranslate2(exported, workers=workers, precision=contest.precision, search=search)
        )
    return [*found, echo()]


def loads(
    checkpoint: Checkpoint, source_file: Path | None, target: str, contest: Contest, seed: int
) -> list[Load]:
    """Each kind of texts at each concurrency."""
    pairs = {each: (source, each) for source, each in reversed(checkpoint.card.pairs)}
    if target not in pairs:
        raise UnsupportedLanguageError("target", target, pairs)
    pair = pairs[target]
    texts: dict[str, list[SizedText]] = {}
    for kind in contest.kinds:
        if source_file is None:
            texts[kind] = word_texts(checkpoint.tokenizer, _KINDS[kind], contest.texts, seed)
        else:
            sources = [line.split("\t")[0] for line in read_lines(source_file)]
            texts[kind] = real_texts(checkpoint, sources, pair, _KINDS[kind], contest.texts)
    return [
        Load(
            name=kind,
            texts=texts[kind],
            concurrency=concurrency,
            seconds=contest.seconds,
            warm_up_seconds=_WARM_UP_SECONDS,
            source=pair[0],
            target=pair[1],
            decoding=SEARCHES[contest.search],
        )
        for kind in contest.kinds
        for concurrency in contest.concurrency
    ]


def measure(
    servers: Sequence[Server], loads: Sequence[Load], checkpoint: Checkpoint, rounds: int
) -> list[Showing]:
    """Every text alone, then every load in turns."""
    kinds = {load.name: load for load in loads}
    alone = {
        (server.recipe.name, name): send(server, load.alone()).answers
        for name, load in kinds.items()
        for server in servers
    }
    references = {name: reference_translations(checkpoint, load) for name, load in kinds.items()}
    seen: dict[tuple[str, int], list[Traffic]] = {}
    for current in range(rounds):
        first = current % len(servers)
        for index, load in enumerate(loads):
            for server in [*servers[first:], *servers[:first]]:
                seen.setdefault((server.recipe.name, index), []).append(send(server, load))
    return [
        Showing(
            service=server.recipe.name,
            load=load,
            rounds=seen[server.recipe.name, index],
            changed=changed_answers(alone[server.recipe.name, load.name], seen[server.recipe.name, index]),
            agreeing=sum(
                answers == {references[load.name][which]}
                for which, answers in alone[server.recipe.name, load.name].items()
            ),
            expected=len(load.texts) if server.recipe.translates else 0,
        )
        for index, load in enumerate(loads)
        for server in servers
    ]
