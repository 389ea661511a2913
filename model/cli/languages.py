"""`--source` and `--target`: which direction is meant, and what goes without saying."""

from dataclasses import dataclass

import click

from model.card import ModelCard, Pair
from model.cli.grouping import Command, grouped
from model.cli.main import Misuse


@dataclass(frozen=True)
class Languages:
    """What the user said; None (or `auto` for the source) leaves it open."""

    source: str | None
    target: str | None

    def resolve(self, card: ModelCard, sample: str) -> Pair:
        """The direction that is meant.

        Args:
            card: Of the checkpoint.
            sample: Some of the text, to detect its language where several are possible.

        Raises:
            UnsupportedLanguageError: If the checkpoint does not translate the direction.
            UsageError: If the target is left open and there are several.
        """
        from model.passage import resolve_code, resolve_pair

        source = self._source(card, sample)
        if self.target is not None:
            return resolve_pair(card, source, self.target)
        targets = card.targets(resolve_code(card, source))
        if len(targets) > 1:
            raise click.UsageError(f"--target is needed: one of {', '.join(targets)}")
        return resolve_pair(card, source, next(iter(targets), source))

    def _source(self, card: ModelCard, sample: str) -> str:
        if self.source is not None and self.source != "auto":
            return self.source
        from model.passage import resolve_code

        target = None if self.target is None else resolve_code(card, self.target)
        possible = [code for code in card.sources if target is None or target in card.targets(code)]
        if self.source is None and len(possible) == 1:
            return possible[0]
        from model.text.language import LanguageDetector, usable_language

        ranked = LanguageDetector(card.languages).detect(sample)
        return usable_language(ranked, lambda code: code == target or code in possible).language


def named_languages(card: ModelCard, name: str) -> Pair:
    """The two languages of a `--corpus SOURCE-TARGET FILE`.

    Raises:
        Misuse: If the checkpoint translates between no two that are named so.
    """
    pair = card.languages_named(name)
    if pair is None:
        translated = ", ".join("-".join(each) for each in card.pairs)
        raise Misuse(f"--corpus must name languages of {translated}, but names {name} instead")
    return pair


def are_exchanged(samples: tuple[str, str], languages: Pair) -> bool:
    """Whether two columns of text are plainly in each other's language."""
    from model.text.language import LanguageDetector

    detector = LanguageDetector(languages)
    guesses = [detector.detect(sample)[0] for sample in samples]
    return all(
        guess.language == other and guess.confidence > 0.9
        for guess, other in zip(guesses, reversed(languages), strict=True)
    )


def language_options(command: Command) -> Command:
    """`--source`, `--target`, as `languages`."""
    helps = {
        "source": "Source language; detected in the first lines where there is a choice, or for auto.",
        "target": "Target language; needed only where there is a choice.",
    }
    options = {
        name: click.option(f"-{name[0]}", f"--{name}", metavar="CODE", help=text)
        for name, text in helps.items()
    }
    return grouped(command, options, "languages", Languages)
