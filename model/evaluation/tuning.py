"""Tuning of the search: held-out text is translated with each candidate and scored.

A length penalty cannot be learnt and differs from network to network. With little training data the best one
is often worth half a BLEU point. It is chosen on validation text, never on the text that is reported.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from model.checkpoint.card import ModelCard, Pair
from model.checkpoint.editing import replace_card
from model.decode_request import DecodeOptions
from model.evaluation import HeldOut, Metric
from model.evaluation.scores import TranslationScores, mean_score, score_translations
from model.translation.translator import Translator


@dataclass(frozen=True)
class Trial:
    """The scores of one search.

    Attributes:
        options: The search.
        scores: Scores by direction.
    """

    options: DecodeOptions
    scores: Mapping[Pair, TranslationScores]

    def score(self, metric: Metric) -> float:
        """Returns the mean of a metric over the directions."""
        return mean_score(self.scores.values(), metric)

    def to_dict(self) -> dict[str, object]:
        """Returns plain values, for JSON."""
        return {
            "beam_size": self.options.beam_size,
            "length_penalty": self.options.length_penalty,
            "scores": {"-".join(pair): vars(scores) for pair, scores in self.scores.items()},
        }


def searches(
    present: DecodeOptions, beam_sizes: Sequence[int], length_penalties: Sequence[float]
) -> list[DecodeOptions]:
    """Returns all combinations as beam searches, after the present search if that is a beam search.

    Args:
        present: The checkpoint's default. The candidates differ from it in beam size and length penalty, and
            in the number of hypotheses if the beam is smaller than that.
        beam_sizes: The present one if empty.
        length_penalties: The present one if empty.
    """
    grid = product(beam_sizes or [present.beam_size], length_penalties or [present.length_penalty])
    options = [
        dataclasses.replace(
            present,
            strategy="beam",
            beam_size=beam,
            length_penalty=penalty,
            num_hypotheses=min(present.num_hypotheses, beam),
        )
        for beam, penalty in grid
    ]
    return list(dict.fromkeys([present, *options] if present.strategy == "beam" else options))


def try_searches(
    translator: Translator,
    texts: Sequence[HeldOut],
    candidates: Sequence[DecodeOptions],
    progress: Callable[[int], object] | None = None,
) -> Iterator[Trial]:
    """Translates all texts with each candidate, without second attempts, and scores the translations.

    Args:
        translator: The checkpoint.
        texts: Held-out text of each direction.
        candidates: The searches.
        progress: Called with the number of sentences done since the last call.
    """
    for options in candidates:
        scores = {}
        for text in texts:
            lines = range(1, len(text.sources) + 1)
            translations = translator.translate(
                text.sources,
                source=text.source_language,
                target=text.target_language,
                options=options,
                fields=[f"{'→'.join(text.direction)}, line {number} of the text" for number in lines],
                progress=progress,
            )
            scores[text.direction] = score_translations(translations, [text.references], text.target_language)
        yield Trial(options, scores)


def best_trial(trials: Sequence[Trial], metric: Metric) -> Trial:
    """Returns the trial with the highest score; of equal ones the first, so that the present search stays."""
    return max(trials, key=lambda trial: trial.score(metric))


def keep_best_search(
    folder: Path, card: ModelCard, trials: Sequence[Trial], metric: Metric, texts: Sequence[str]
) -> None:
    """Makes the best search a checkpoint's default, and records all trials in `provenance.json`.

    Args:
        folder: The checkpoint; its checksum changes.
        card: The checkpoint's card.
        trials: The searches that were tried.
        metric: The metric that decides.
        texts: Files that were translated; their names are recorded.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is unchanged then.
    """
    noted = {
        "text": [Path(file).name for file in texts],
        "metric": metric,
        "tried": [trial.to_dict() for trial in trials],
    }
    chosen = dataclasses.replace(card, decoding=best_trial(trials, metric).options)
    replace_card(folder, chosen, {"tuning": noted})
