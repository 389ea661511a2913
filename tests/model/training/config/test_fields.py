import dataclasses
from typing import get_type_hints

import pytest

from model.config import TransformerConfig
from model.errors import ConfigError
from model.request import DecodeOptions
from model.training.config.data import BatchConfig, CleaningConfig, CorpusConfig, VocabularyConfig
from model.training.config.fields import build, choices, field_docs, value_kinds
from model.training.config.optimisation import ObjectiveConfig, OptimisationConfig
from model.training.config.run import CardConfig, RunConfig, ValidationConfig
from model.training.config.train_config import TrainConfig
from model.training.schedule import ScheduleConfig

CLASSES = [
    BatchConfig,
    CardConfig,
    CleaningConfig,
    CorpusConfig,
    DecodeOptions,
    ObjectiveConfig,
    OptimisationConfig,
    RunConfig,
    ScheduleConfig,
    TrainConfig,
    TransformerConfig,
    ValidationConfig,
    VocabularyConfig,
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_setting_is_documented_and_nothing_else(cls: type) -> None:
    names = [field.name for field in dataclasses.fields(cls)]
    assert list(field_docs(cls)) == names
    assert all(text.endswith((".", ")")) or text[-1].isalnum() for text in field_docs(cls).values())


def test_documentation_is_one_line() -> None:
    text = field_docs(OptimisationConfig)["weight_decay"]
    assert text.startswith("Decoupled decay of matrices")
    assert "  " not in text
    assert "\n" not in text


def test_build_makes_the_class() -> None:
    made = build(BatchConfig, {"max_tokens": 100, "max_sentences": None}, "batches")
    assert made == BatchConfig(max_tokens=100)


def test_a_list_becomes_a_tuple() -> None:
    assert build(DecodeOptions, {"suppress_ids": [3, 4]}, "decoding").suppress_ids == (3, 4)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"max_token": 3}, r"`batches\.max_token` must be one of max_tokens"),
        ({"max_tokens": "many"}, r"`batches\.max_tokens` must be a number"),
        ({"max_tokens": True}, r"`batches\.max_tokens` must be a number"),
        ({"max_tokens": 1}, r"`batches\.max_tokens` must be an integer at least 4"),
        ("much", "`batches` must be a table"),
    ],
)
def test_what_cannot_work_is_refused_by_its_full_name(values: object, field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        build(BatchConfig, values, "batches")


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ConfigError, match=r"`corpora\[0\]\.source_language` must be given"):
        build(CorpusConfig, {"path": "x"}, "corpora[0]")


def test_text_is_required_where_text_is_meant() -> None:
    with pytest.raises(ConfigError, match=r"`corpora\[0\]\.path` must be text"):
        build(CorpusConfig, {"path": 3}, "corpora[0]")


def test_annotations_are_seen_through() -> None:
    hints = get_type_hints(BatchConfig) | get_type_hints(ScheduleConfig) | get_type_hints(DecodeOptions)
    assert value_kinds(hints["max_sentences"]) == ({int}, True)
    assert value_kinds(hints["form"]) == ({str}, False)
    assert value_kinds(hints["suppress_ids"]) == ({tuple}, False)
    assert choices(hints["form"]) == ("inverse_sqrt", "noam", "cosine", "constant")
    assert choices(hints["max_sentences"]) == ()
