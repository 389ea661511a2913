"""Everything a run reads, made ready or refused."""

from pathlib import Path

import pytest

from model.errors import CorpusError
from model.training.config.data import CorpusConfig
from model.training.config.train_config import TrainConfig
from model.training.data.preparation import _warn_of_exchange, prepare_data
from model.training.run_folder.folder import RunFolder
from tests.model.training.tiny_runs import tiny_values


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
