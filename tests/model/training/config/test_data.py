import pytest

from model.errors import ConfigError
from model.training.config.data import CorpusConfig, VocabularyConfig


def corpus(**values: object) -> CorpusConfig:
    return CorpusConfig(**({"path": "a.tsv", "source_language": "en", "target_language": "fr"} | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", ""),
        ("target_path", ""),
        ("source_language", ""),
        ("target_language", "en"),
        ("target_column", 1),
    ],
)
def test_values_of_a_corpus_that_contradict_each_other_are_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as refusal:
        corpus(**{field: value})
    assert refusal.value.field == field


def test_a_shared_vocabulary_has_one_size() -> None:
    assert VocabularyConfig(shared=False, target_size=9).target_size == 9
    with pytest.raises(ConfigError, match="`target_size` must be left out where one vocabulary is shared"):
        VocabularyConfig(target_size=9)


def test_aligned_files_need_a_target_and_other_formats_none() -> None:
    with pytest.raises(ConfigError, match="`target_path` must be given"):
        corpus(format="aligned")
    with pytest.raises(ConfigError, match="`target_path` must be left out"):
        corpus(format="tsv", target_path="b.txt")


def test_directions() -> None:
    assert corpus().directions == (("en", "fr"),)
    assert corpus(bidirectional=True).directions == (("en", "fr"), ("fr", "en"))
