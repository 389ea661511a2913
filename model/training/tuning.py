"""ⓕ Which search suits a network: held-out text translated with one after the other, and scored.

A length penalty cannot be learnt and differs from network to network; on small data the best is often
worth half a BLEU point. So it is chosen on validation text, never on the text that is reported.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from model.checkpoint.card import ModelCard, Pair
from model.checkpoint.editing import replace_card
from model.evaluation import Metric
from model.evaluation.scores import TranslationScores, mean_score, score_translations
from model.request import DecodeOptions
from model.training.validation import HeldOut
from model.translation.translator import Translator

Translate = Callable[[Sequence[str], Pair, DecodeOptions], Sequence[str]]
"""Texts of a direction, translated as the options say."""


@dataclass(frozen=True)
class Trial:
    """What one search gave.

    Attributes:
        options: How was searched.
        scores: By direction.
    """

    options: DecodeOptions
    scores: Mapping[Pair, TranslationScores]

    def score(self, metric: Metric) -> float:
        """Mean of a metric over the directions."""
        return mean_score(self.scores.values(), metric)

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "beam_size": self.options.beam_size,
            "length_penalty": self.options.length_penalty,
            "scores": {"-".join(pair): vars(scores) for pair, scores in self.scores.items()},
        }


def searches(
    present: DecodeOptions, beam_sizes: Sequence[int], length_penalties: Sequence[float]
) -> list[DecodeOptions]:
    """All combinations, as beam search; before them the present search, if it is one with beams.

    Args:
        present: What the checkpoint does by default; everything else stays as it is there, but for
            hypotheses that a smaller beam has no room for.
        beam_sizes: None given: the present one.
        length_penalties: None given: the present one.
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
    texts: Sequence[HeldOut], candidates: Sequence[DecodeOptions], translate: Translate
) -> Iterator[Trial]:
    """Translate and score all texts with each candidate, one trial after the other."""
    for options in candidates:
        yield Trial(
            options,
            {
                text.direction: score_translations(
                    translate(text.sources, text.direction, options), [text.references], text.target_language
                )
                for text in texts
            },
        )


def best_trial(trials: Sequence[Trial], metric: Metric) -> Trial:
    """The highest score; of equal ones the first, so that what is there stays."""
    return max(trials, key=lambda trial: trial.score(metric))


def keep_best_search(
    folder: Path, card: ModelCard, trials: Sequence[Trial], metric: Metric, texts: Sequence[str]
) -> None:
    """Make the best search a checkpoint's default; what was tried stays in `provenance.json`.

    Args:
        folder: The checkpoint; gets a new checksum.
        card: Its card.
        trials: On it.
        metric: What chooses.
        texts: Files that were translated; their names are noted.

    Raises:
        CheckpointError: If the folder cannot be read or written; it is as it was then.
    """
    noted = {
        "text": [Path(file).name for file in texts],
        "metric": metric,
        "tried": [trial.to_dict() for trial in trials],
    }
    chosen = dataclasses.replace(card, decoding=best_trial(trials, metric).options)
    replace_card(folder, chosen, {"tuning": noted})


def translate_with(translator: Translator, progress: Callable[[int], object] | None = None) -> Translate:
    """A checkpoint's own way, without second attempts: the search alone is to be judged."""

    def translate(sources: Sequence[str], pair: Pair, options: DecodeOptions) -> list[str]:
        lines = [f"{'→'.join(pair)}, line {number} of the text" for number in range(1, len(sources) + 1)]
        translations = translator.translate(
            sources, source=pair[0], target=pair[1], options=options, fields=lines, progress=progress
        )
        return [translation.text for translation in translations]

    return translate
