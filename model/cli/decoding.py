"""`--beam-size` and the like: how to decode, where the checkpoint's own defaults are not wanted."""

from collections.abc import Mapping

import click

from model.cli.grouping import Command, grouped

_OPTIONS: Mapping[str, tuple[type, str]] = {
    "strategy": (str, "greedy, beam or sample."),
    "beam_size": (int, "Hypotheses kept alive; asks for beam search where no --strategy is given."),
    "length_penalty": (float, "Above 0 favours longer translations."),
    "patience": (
        float,
        "Search ends when patience × beam size are finished and none is ahead of them.",
    ),
    "temperature": (float, "Sampling: above 1 is more varied."),
    "top_k": (int, "Sampling: among the k likeliest tokens; 0 is no limit."),
    "top_p": (float, "Sampling: among the likeliest tokens that hold this probability."),
    "min_p": (float, "Sampling: drop what is less likely than this share of the likeliest."),
    "seed": (int, "Sampling: the same seed gives the same translation."),
    "max_length": (int, "Most tokens of a translated sentence."),
    "min_length": (int, "Fewest tokens of a translated sentence."),
    "no_repeat_ngram_size": (int, "No sequence of so many tokens appears twice."),
    "repetition_penalty": (float, "Above 1 makes repeated tokens less likely."),
}


def decoding_options(command: Command) -> Command:
    """The values that were given, as `decoding`: by their name in DecodeOptions."""
    options = {
        name: click.option(f"--{name.replace('_', '-')}", type=kind, help=text)
        for name, (kind, text) in _OPTIONS.items()
    }
    return grouped(command, options, "decoding", _given)


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
