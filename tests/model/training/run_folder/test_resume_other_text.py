"""What becomes of a run whose text is no longer, or elsewhere is not, what it was prepared from."""

import json
from pathlib import Path

import pytest

from model.errors import CorpusError
from model.training.data.preparation import prepare_data, text_fingerprints
from model.training.data.token_store import PairDataset
from model.training.run import open_run
from model.training.run_folder.folder import RunFolder
from tests.model.training.tiny_runs import tiny_run


@pytest.mark.parametrize(("name", "which"), [("train.tsv", "train"), ("valid.tsv", "validation")])
def test_other_text_does_not_resume_and_replaces_nothing(copied_run: Path, name: str, which: str) -> None:
    root = copied_run / "run"
    with (copied_run / name).open("a") as file:
        file.write("a new dog\tun chien nouveau\n")
    kept = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    with pytest.raises(CorpusError, match=f"cannot resume: the {which} text, or the tokenizer, has changed"):
        open_run(tiny_run(copied_run, run={"log_every": 1}), resume=True)
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == kept


def test_a_state_without_fingerprints_resumes(copied_run: Path) -> None:
    file = copied_run / "run/state/state.json"
    values = json.loads(file.read_text())
    del values["text"]
    file.write_text(json.dumps(values))
    assert open_run(tiny_run(copied_run), resume=True).run() == "max_steps"


def test_a_process_that_sees_other_text_makes_nothing_of_it(tmp_path: Path) -> None:
    config, folder = tiny_run(tmp_path), RunFolder(tmp_path / "run")
    folder.tokenizer.mkdir(parents=True)
    prepared = prepare_data(config, folder)
    assert prepare_data(config, folder, writes=False).fingerprints == prepared.fingerprints
    (tmp_path / "train.tsv").write_text("a new dog\tun chien nouveau\n")
    with pytest.raises(CorpusError, match="is not made of what is here: the processes see other files"):
        prepare_data(config, folder, writes=False)
    assert text_fingerprints(tiny_run(tmp_path), folder) != prepared.fingerprints
    assert PairDataset(folder.data / "train").index.fingerprint == prepared.fingerprints["train"]
