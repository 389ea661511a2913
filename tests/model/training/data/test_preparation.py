"""Everything a run reads, made ready or refused."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from model.errors import CorpusError, TrainingError
from model.training.config_sections import CorpusConfig
from model.training.data.corpus import read_pairs
from model.training.data.preparation import _warn_of_exchange, prepare_data, with_held_out_text
from model.training.run import open_run, prepare_run
from model.training.run_folder.folder import RunFolder
from model.training.train_config import TrainConfig
from tests.model.training.tiny_runs import tiny_run, tiny_values


def test_text_that_cleaning_drops_to_the_last_pair_is_refused_with_the_reasons(tmp_path: Path) -> None:
    values = tiny_values(tmp_path) | {"validation_corpora": []}
    values["corpora"][0]["target_language"] = "zh"
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("dog\t\n")
    message = "no sentence is left to learn a vocabulary from; dropped: 60 wrong script, 1 empty"
    with pytest.raises(CorpusError, match=message):
        prepare_data(TrainConfig.from_dict(values), RunFolder(tmp_path / "run"), keep_tokenizer=False)


@pytest.mark.parametrize(("languages", "warns"), [(("en", "fr"), False), (("fr", "en"), True)])
def test_exchanged_languages_are_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, languages: tuple[str, str], warns: bool
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Where is the railway station?\tOù est la gare, s'il vous plaît ?\n" * 3)
    source, target = languages
    _warn_of_exchange(CorpusConfig(path=str(path), source_language=source, target_language=target))
    assert ("looks like en into fr" in caplog.text) == warns


def corpus_of(folder: Path, *, count: int) -> TrainConfig:
    """A run without validation text, on this many pairs, of which every second source occurs twice."""
    lines = [f"It is {number // 2 * 2}.\tIl est {number}." for number in range(count)]
    (folder / "train.tsv").write_text("\n".join(lines))
    return TrainConfig.from_dict(tiny_values(folder) | {"validation_corpora": []})


def test_one_source_in_a_hundred_is_held_out_where_no_validation_text_is_named(tmp_path: Path) -> None:
    config = corpus_of(tmp_path, count=20_000)
    chosen = with_held_out_text(config)
    (training,), (held_out,) = (
        [list(read_pairs(corpus)) for corpus in corpora]
        for corpora in (chosen.corpora, chosen.validation_corpora)
    )
    assert sorted(training + held_out) == sorted(read_pairs(config.corpora[0]))
    assert not {source for source, _ in training} & {source for source, _ in held_out}
    assert 100 < len(held_out) < 300
    assert with_held_out_text(chosen) == chosen


@pytest.mark.parametrize("held_out", [True, False])
def test_nothing_is_held_out_of_little_text_or_where_that_is_off(tmp_path: Path, held_out: bool) -> None:
    config = corpus_of(tmp_path, count=1000 if held_out else 20_000)
    config = replace(config, validation=replace(config.validation, held_out=held_out))
    assert with_held_out_text(config) == config


def test_a_prepared_run_begins_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare_run(tiny_run(tmp_path))
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"lock", "tokenizer", "data"}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the text is prepared already")

    with monkeypatch.context() as patch:
        patch.setattr("model.training.data.preparation.train_tokenizer", refuse)
        patch.setattr("model.training.data.tokenisation.tokenised_chunks", refuse)
        run = open_run(tiny_run(tmp_path), resume=True)
    assert run.data.fingerprints == prepared.fingerprints
    run.run()
    with pytest.raises(TrainingError, match="holds a run already"):
        prepare_run(tiny_run(tmp_path))


@pytest.mark.parametrize("changes", [{"vocabulary": {"size": 60}}, {"cleaning": {"max_length_words": 9}}])
def test_a_tokenizer_of_other_settings_is_made_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, dict[str, int]]
) -> None:
    prepare_run(tiny_run(tmp_path))
    with caplog.at_level(logging.INFO, "model"):
        prepare_run(tiny_run(tmp_path, **changes))
    assert "making the tokenizer" in caplog.text
