import dataclasses
import math
from typing import get_type_hints

import pytest

from model.config import TransformerConfig
from model.decode_request import DecodeOptions
from model.errors import ConfigError
from model.training import config_sections
from model.training.config_sections import (
    BatchConfig,
    CleaningConfig,
    CorpusConfig,
    OptimisationConfig,
    RunConfig,
    ScheduleConfig,
    VocabularyConfig,
    choices,
    field_docs,
    value_kinds,
)
from model.training.train_config import TrainConfig, build

FILE = {"path": "a.tsv", "source_language": "en", "target_language": "fr"}

SECTIONS = [cls for cls in vars(config_sections).values() if dataclasses.is_dataclass(cls)]


@pytest.mark.parametrize("cls", [*SECTIONS, DecodeOptions, TrainConfig, TransformerConfig])
def test_every_setting_is_documented_and_nothing_else(cls: type) -> None:
    names = [field.name for field in dataclasses.fields(cls)]
    assert list(field_docs(cls)) == names
    assert all(text.endswith((".", ")")) or text[-1].isalnum() for text in field_docs(cls).values())


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (BatchConfig, "much", "`section` must be a table"),
        (BatchConfig, {"max_token": 3}, r"`section\.max_token` must be one of max_tokens \(the nearest name"),
        (CorpusConfig, {"path": "x"}, r"`section\.source_language` must be given"),
        (CorpusConfig, {"path": 3}, r"`section\.path` must be a valid string, but is 3"),
        (
            BatchConfig,
            {"max_tokens": "many"},
            r"`section\.max_tokens` must be a valid integer, .*'many'",
        ),
        (BatchConfig, {"max_tokens": True}, r"`section\.max_tokens` must be a valid integer, but is True"),
        (BatchConfig, {"max_tokens": 1}, r"`section\.max_tokens` must be .* equal to 4, but is 1"),
        (BatchConfig, {"max_sentences": 0}, r"`section\.max_sentences` must be greater than or equal to 1"),
        (BatchConfig, {"piece_dropout": 1.1}, r"`section\.piece_dropout` must be less than or equal to 1"),
        (OptimisationConfig, {"learning_rate": 0}, r"`section\.learning_rate` must be greater than 0"),
        (OptimisationConfig, {"beta1": math.nan}, r"`section\.beta1` must be a finite number, but is nan"),
        (ScheduleConfig, {"form": "linear"}, r"`section\.form` must be 'inverse_sqrt', .* but is 'linear'"),
        (ScheduleConfig, {"form": "noam", "warmup_steps": 0}, r"`section\.warmup_steps` must be at least 1"),
        (RunConfig, {"max_steps": 1, "plots": 1}, r"`section\.plots` must be a valid boolean, but is 1"),
        (VocabularyConfig, {"reuse": ""}, r"`section\.reuse` must be the folder of a tokenizer"),
        (VocabularyConfig, {"target_size": 9}, r"`section\.target_size` must be left out where one vocab"),
        (CorpusConfig, FILE | {"path": ""}, r"`section\.path` must be the name of a file"),
        (CorpusConfig, FILE | {"target_path": ""}, r"`section\.target_path` must be the name of a file"),
        (CorpusConfig, FILE | {"source_language": ""}, r"`section\.source_language` must be a language code"),
        (CorpusConfig, FILE | {"target_language": "en"}, r"`section\.target_language` must be different"),
        (CorpusConfig, FILE | {"target_column": 1}, r"`section\.target_column` must be different"),
        (CorpusConfig, FILE | {"format": "aligned"}, r"`section\.target_path` must be given"),
        (CorpusConfig, FILE | {"format": "tsv", "target_path": "b"}, r"`section\.target_path` must be left"),
    ],
)
def test_what_cannot_work_is_refused_by_its_full_name(cls: type, values: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(cls, values, "section")


def test_a_number_stays_as_the_file_has_it() -> None:
    """Otherwise a run whose file says 2 could not be resumed, because its data is known by `2`, not `2.0`."""
    whole = build(CleaningConfig, {"max_length_ratio": 2}, "cleaning").max_length_ratio
    assert isinstance(whole, int)


def test_annotations_are_seen_through() -> None:
    hints = get_type_hints(BatchConfig) | get_type_hints(ScheduleConfig) | get_type_hints(DecodeOptions)
    assert value_kinds(hints["max_sentences"]) == {int}
    assert value_kinds(hints["form"]) == {str}
    assert value_kinds(hints["suppress_ids"]) == {tuple}
    assert value_kinds(hints["piece_dropout"]) == {float, int}
    assert choices(hints["form"]) == ("inverse_sqrt", "noam", "cosine", "constant")
    assert choices(hints["max_sentences"]) == ()
