from collections.abc import Callable

import pytest

from model.errors import ConfigError
from model.training.config.data import (
    AugmentationConfig,
    BatchConfig,
    CleaningConfig,
    CorpusConfig,
    VocabularyConfig,
)


def corpus(**values: object) -> CorpusConfig:
    return CorpusConfig(**({"path": "a.tsv", "source_language": "en", "target_language": "fr"} | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        (corpus, "path", ""),
        (corpus, "target_path", ""),
        (corpus, "source_language", ""),
        (corpus, "target_language", "en"),
        (corpus, "format", "csv"),
        (corpus, "source_column", -1),
        (corpus, "target_column", 0),
        (corpus, "weight", 0),
        (corpus, "weight", float("nan")),
        (corpus, "bidirectional", 1),
        (CleaningConfig, "max_length_tokens", 2),
        (CleaningConfig, "max_length_words", 0),
        (CleaningConfig, "max_length_ratio", 0.5),
        (CleaningConfig, "check_script", "yes"),
        (VocabularyConfig, "kind", "wordpiece"),
        (VocabularyConfig, "size", 7),
        (VocabularyConfig, "character_coverage", 1.1),
        (VocabularyConfig, "minimum_frequency", 0),
        (VocabularyConfig, "shared", None),
        (VocabularyConfig, "reuse", ""),
        (BatchConfig, "max_tokens", 0),
        (BatchConfig, "max_sentences", 0),
        (BatchConfig, "pool_size", 0),
        (BatchConfig, "prefetch", -1),
        (BatchConfig, "piece_dropout", 1.1),
        (BatchConfig, "target_piece_dropout", -0.1),
        (AugmentationConfig, "capitals", -0.1),
        (AugmentationConfig, "words", float("nan")),
        (AugmentationConfig, "seed", -1),
        (AugmentationConfig, "seed", 2**63),
    ],
)
def test_bad_value_is_refused_by_name(make: Callable[..., object], field: str, value: object) -> None:
    with pytest.raises(ConfigError) as refusal:
        make(**{field: value})
    assert refusal.value.field == field


def test_aligned_files_need_a_target_and_other_formats_none() -> None:
    with pytest.raises(ConfigError, match="`target_path` must be given"):
        corpus(format="aligned")
    with pytest.raises(ConfigError, match="`target_path` must be left out"):
        corpus(format="tsv", target_path="b.txt")


def test_directions() -> None:
    assert corpus().directions == (("en", "fr"),)
    assert corpus(bidirectional=True).directions == (("en", "fr"), ("fr", "en"))
