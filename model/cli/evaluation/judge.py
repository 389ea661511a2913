"""Scores of a system, how sure they are, and whether a baseline's are worse."""

import dataclasses
from typing import TYPE_CHECKING

from model.cli.evaluation.report import Baseline, Evaluation
from model.cli.evaluation.systems import System, Translated
from model.cli.evaluation.text import EvaluationText

if TYPE_CHECKING:
    from model.checkpoint.card import Pair
    from model.evaluation.scores import ScoredSentence


class Judge:
    """Scores a system on one text after the other.

    Args:
        system: Is judged.
        baseline: What it is compared with; None for nothing.
        confidence: Whether to say how sure the scores are; they are with a baseline.
        resamples: Texts that the bootstrap draws.
        sentence_bleu: Words of the longest n-grams of each line's own BLEU; None leaves it out.
    """

    def __init__(
        self,
        system: System,
        baseline: System | None,
        *,
        confidence: bool,
        resamples: int,
        sentence_bleu: int | None,
    ) -> None:
        self._system = system
        self._baseline = baseline
        self._confidence = confidence
        self._resamples = resamples
        self._sentence_bleu = sentence_bleu

    def evaluate(self, text: EvaluationText, pair: "Pair") -> Evaluation:
        """Translate a text and score it."""
        from model.evaluation.scores import score_translations

        found = self._system.translate(text, pair)
        evaluation = Evaluation(
            model=self._system.name,
            pair="-".join(pair),
            translations=found.translations,
            scores=score_translations(found.translations, text.references, pair[1]),
            speed=found.speed,
            lines=() if self._sentence_bleu is None else _lines(text, found, self._sentence_bleu),
        )
        return self._with_certainty(evaluation, text, pair)

    def _with_certainty(self, evaluation: Evaluation, text: EvaluationText, pair: "Pair") -> Evaluation:
        from model.evaluation.significance import bootstrap, compare

        translations, resamples = evaluation.translations, self._resamples
        if self._baseline is not None:
            other = self._baseline.translate(text, pair)
            found = compare(translations, other.translations, text.references, pair[1], resamples=resamples)
            against = Baseline(
                model=self._baseline.name,
                place=self._baseline.place,
                scores=found.baseline,
                speed=other.speed,
            )
            return dataclasses.replace(evaluation, confidence=found.system, against=against)
        if self._confidence:
            confidence = bootstrap(translations, text.references, pair[1], resamples=resamples)
            return dataclasses.replace(evaluation, confidence=confidence)
        return evaluation


def _lines(text: EvaluationText, found: Translated, max_order: int) -> "tuple[ScoredSentence, ...]":
    from model.evaluation.scores import ScoredSentence, sentence_bleu

    return tuple(
        ScoredSentence(
            source, reference or "", line, sentence_bleu(line, reference or "", max_order=max_order)
        )
        for source, reference, line in zip(text.sources, text.references[0], found.translations, strict=True)
    )
