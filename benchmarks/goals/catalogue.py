"""The goals: which model, which direction, which test set, which BLEU, and what others have published."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.recipes import ROOT
from model.checkpoint.card import Pair

RECIPES = ROOT / "examples" / "goals"


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A score to reach in one direction.

    Attributes:
        model: Its recipe is examples/goals/MODEL.toml.
        source: Code.
        target: Code.
        test: File below the data folder, and for aligned files that of the target; never trained or
            tuned on. One file has English in its first column.
        bleu: At least this much; None only reports.
        published: The best that others have published there.
    """

    model: str
    source: str
    target: str
    test: tuple[str, ...]
    bleu: float | None
    published: str

    @property
    def name(self) -> str:
        """`corpus-source-target`."""
        return f"{self.model.partition('-')[0]}-{self.source}-{self.target}"

    @property
    def recipe(self) -> Path:
        """The training file."""
        return RECIPES / f"{self.model}.toml"


def _multi30k(source: str, target: str, bleu: float | None, published: str) -> Goal:
    other = target if source == "en" else source
    test = tuple(f"multi30k/test_2016_flickr.{code}.gz" for code in (source, target))
    return Goal(
        model=f"multi30k-en-{other}", source=source, target=target, test=test, bleu=bleu, published=published
    )


def _tatoeba(source: str, target: str, bleu: float | None, published: str) -> Goal:
    model = f"tatoeba-en-{target if source == 'en' else source}"
    test = (f"{model}/dev-test.tsv.gz",)
    return Goal(model=model, source=source, target=target, test=test, bleu=bleu, published=published)


_OPUS = "OPUS-MT {} on the public Tatoeba test"

GOALS: Sequence[Goal] = (
    _multi30k("de", "en", 41, "36.5 (lower-cased tokens; 3-layer Transformer)"),
    _multi30k("en", "de", 40, "36.3 (OPUS-MT); about 41 tokenised, tiny text-only Transformers"),
    _multi30k("en", "fr", 60, "48.8 (OPUS-MT); about 61 tokenised"),
    _multi30k("fr", "en", None, ""),
    _tatoeba("en", "fr", 52, _OPUS.format(51.8)),
    _tatoeba("fr", "en", 58, _OPUS.format(58.3)),
    _tatoeba("en", "de", 45, _OPUS.format(44.7)),
    _tatoeba("de", "en", 53, _OPUS.format(52.7)),
    _tatoeba("en", "es", 54, _OPUS.format(53.8)),
    _tatoeba("es", "en", 59, _OPUS.format(58.8)),
    _tatoeba("en", "zh", None, _OPUS.format(31.4)),
    _tatoeba("zh", "en", None, _OPUS.format(36.1)),
)


def goals_of(name: str) -> tuple[Goal, ...]:
    """All goals of a model, which is named by itself or by one of them.

    Raises:
        click.UsageError: If it names none.
    """
    models = {goal.name: goal.model for goal in GOALS} | {goal.model: goal.model for goal in GOALS}
    if name not in models:
        raise click.UsageError(f"{name!r} must be one of {', '.join(sorted(models))}")
    return tuple(goal for goal in GOALS if goal.model == models[name])


def trained_goals(name: str, pairs: Sequence[Pair]) -> tuple[Goal, ...]:
    """Those of `goals_of` whose direction a run trains.

    Args:
        name: Of a goal or a model; that of a model is the name of one of its goals as well.
        pairs: What the run trains.

    Raises:
        click.UsageError: If that goal itself is not among them: others are no answer to it.
    """
    goals = tuple(goal for goal in goals_of(name) if (goal.source, goal.target) in pairs)
    if name not in (goal.name for goal in goals):
        known = ", ".join(f"{source}→{target}" for source, target in pairs)
        raise click.UsageError(
            f"GOAL must be of a direction that the configuration trains ({known}), but is {name!r} instead"
        )
    return goals
