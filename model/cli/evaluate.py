"""`dragoman evaluate`: BLEU and chrF of a checkpoint on held-out text, and how fast it is."""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tqdm import tqdm

from model.cli.decoding import decoding_options
from model.cli.languages import Languages, language_options
from model.cli.setup import Setup, setup_options

if TYPE_CHECKING:
    from model.training.reporting.scores import TranslationScores
    from model.training.reporting.sentence_bleu import ScoredSentence
    from model.translator import Translator

_SAMPLE_LINES = 200


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is reported.

    Attributes:
        model: Name and version of the checkpoint.
        pair: `source-target`.
        sentences: How many lines were translated.
        seconds: From text to text, without loading and warming up.
        device: Where.
        precision: In what.
        scores: BLEU, chrF and their signatures.
        lines: Each line with its own BLEU, where that was asked for.
    """

    model: str
    pair: str
    sentences: int
    seconds: float
    device: str
    precision: str
    scores: "TranslationScores"
    lines: "tuple[ScoredSentence, ...]" = ()

    @property
    def sentences_per_second(self) -> float:
        """Speed."""
        return self.sentences / self.seconds

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        values = dataclasses.asdict(self)
        scores = values.pop("scores")
        if not self.lines:
            del values["lines"]
        return {**values, "sentences_per_second": self.sentences_per_second, **scores}

    def to_record(self) -> dict[str, object]:
        """What provenance keeps: the scores, not the speed of this machine."""
        return {"sentences": self.sentences, "precision": self.precision, **dataclasses.asdict(self.scores)}

    def __str__(self) -> str:
        scores, speed = self.scores, f"{self.sentences_per_second:.1f} sentences/s"
        return (
            "".join(f"{line}\n" for line in self.lines)
            + f"{self.model}, {self.pair}, {self.sentences} sentences\n"
            f"BLEU  {scores.bleu:5.2f}  {scores.bleu_signature}\n"
            f"chrF  {scores.chrf:5.2f}  {scores.chrf_signature}\n"
            f"speed {speed} ({self.seconds:.2f} s, {self.device}, {self.precision})"
        )


@click.command()
@click.option(
    "--source-file", required=True, metavar="F", help="Sentences to translate, one a line; .gz or plain."
)
@click.option("--reference-file", metavar="R", help="Their references; without it, F has columns.")
@click.option(
    "--source-column",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Column of F, tab-separated.",
)
@click.option(
    "--reference-column",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Column of the references.",
)
@click.option(
    "--sentence-bleu",
    type=click.IntRange(min=1),
    metavar="K",
    help="Show each line with its own BLEU of up to K words, 0 to 1.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many lines.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the translations here.")
@click.option(
    "--record", metavar="NAME", help="Add the scores to the checkpoint's provenance under this name."
)
@click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
@language_options
@setup_options
@decoding_options
def evaluate(
    source_file: str,
    reference_file: str | None,
    source_column: int,
    reference_column: int,
    sentence_bleu: int | None,
    limit: int | None,
    output: Path | None,
    record: str | None,
    as_json: bool,
    languages: Languages,
    setup: Setup,
    decoding: Mapping[str, object],
) -> None:
    r"""Translate held-out sentences and score them by sacreBLEU.

    \b
    Examples:
      dragoman evaluate --source-file test.en --reference-file test.fr -s en -t fr
      dragoman evaluate --source-file en-fr.tsv.gz -s fr -t en --source-column 2 --reference-column 1
    """
    columns = (source_column, reference_column)
    sources, references = _read(source_file, reference_file, columns, limit)
    translator = setup.load()
    pair = languages.resolve(translator.card, "\n".join(sources[:_SAMPLE_LINES]))
    translations, seconds = _translate(translator, sources, pair, decoding)
    if output is not None:
        output.write_text("".join(f"{text}\n" for text in translations), encoding="utf-8")
    evaluation = _evaluation(translator, pair, translations, references, seconds)
    if record is not None:
        setup.record(f"{record} {evaluation.pair}", evaluation.to_record())
    if sentence_bleu is not None:
        lines = _scored_lines(sources, references, translations, sentence_bleu)
        evaluation = dataclasses.replace(evaluation, lines=lines)
    click.echo(json.dumps(evaluation.to_dict(), indent=2) if as_json else str(evaluation))


def _read(
    source_file: str, reference_file: str | None, columns: tuple[int, int], limit: int | None
) -> tuple[list[str], list[str]]:
    """Sources and references; see `read_pairs` for the files and for what is refused."""
    from model.training.data.config import CorpusConfig
    from model.training.data.corpus import read_pairs

    # The codes only name the columns here; the direction is settled when the checkpoint is known.
    corpus = CorpusConfig(
        path=source_file,
        target_path=reference_file,
        source_language="source",
        target_language="reference",
        source_column=columns[0] - 1,
        target_column=columns[1] - 1,
    )
    pairs = list(islice(read_pairs(corpus), limit))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def _translate(
    translator: "Translator", sources: Sequence[str], pair: tuple[str, str], decoding: Mapping[str, object]
) -> tuple[list[str], float]:
    options = translator.card.options(decoding) if decoding else None
    translator.translate(sources[:1], source=pair[0], target=pair[1], options=options)
    fields = [f"line {number}" for number in range(1, len(sources) + 1)]
    with tqdm(unit=" sentences", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        started = time.perf_counter()
        translations = translator.translate(
            sources, source=pair[0], target=pair[1], options=options, fields=fields, progress=bar.update
        )
        seconds = time.perf_counter() - started
    return [translation.text for translation in translations], seconds


def _evaluation(
    translator: "Translator",
    pair: tuple[str, str],
    translations: Sequence[str],
    references: Sequence[str],
    seconds: float,
) -> Evaluation:
    from model.training.reporting.scores import score_translations

    return Evaluation(
        model=f"{translator.card.name} {translator.card.version}",
        pair="-".join(pair),
        sentences=len(translations),
        seconds=seconds,
        device=translator.device,
        precision=translator.precision,
        scores=score_translations(translations, [references], pair[1]),
    )


def _scored_lines(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str], max_order: int
) -> "tuple[ScoredSentence, ...]":
    from model.training.reporting.sentence_bleu import ScoredSentence, sentence_bleu

    return tuple(
        ScoredSentence(*row, bleu=sentence_bleu(row[2], row[1], max_order=max_order))
        for row in zip(sources, references, translations, strict=True)
    )
