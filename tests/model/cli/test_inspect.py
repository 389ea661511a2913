"""`dragoman inspect` and `dragoman attention`: reports and pictures, and a refusal of what is not sound."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from tests.model.cli.conftest import Run


def test_the_report_as_json(run: Run, tiny_checkpoint: Path) -> None:
    report = json.loads(run("inspect", tiny_checkpoint, "--json").stdout)
    checkpoint = load_checkpoint(tiny_checkpoint)
    network = checkpoint.network()
    assert report["languages"] == ["en → fr", "fr → en"]
    assert report["architecture"] == checkpoint.config.to_dict()
    assert report["parameters"]["total"] == network.num_parameters()
    assert report["parameters"]["without_embeddings"] == network.num_parameters(embeddings=False)
    assert report["tokenizer"]["language_tags"] == {"en": 4, "fr": 5}
    assert report["provenance"]["data"] == ["phrases of the tests"]
    assert report["checksum"] == checkpoint.checksum
    weights = (tiny_checkpoint / "model.safetensors").read_bytes()
    assert report["files"]["model.safetensors"]["sha256"] == hashlib.sha256(weights).hexdigest()


def test_the_report_for_people(run: Run, tiny_checkpoint: Path) -> None:
    lines = run("inspect", tiny_checkpoint).stdout.splitlines()
    assert lines[:2] == ["name: tiny", "version: 1"]
    assert "languages: en → fr, fr → en" in lines
    assert "  total: 39,936" in lines
    assert "  model_dim: 32" in lines


def test_the_folder_of_a_run_is_told_from_a_checkpoint(
    run: Run, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "runs" / "mine"
    mine.mkdir(parents=True)
    (mine / "config.json").write_text('{"corpora": []}')
    unnamed = run("inspect", mine)
    assert (unnamed.exit_code, unnamed.stderr.count("\n")) == (1, 1)
    assert "is a training run's folder, no checkpoint: it has no checkpoint yet" in unnamed.stderr
    assert run("inspect", mine.parent).stderr == f"dragoman: {mine.parent} holds no checkpoint\n"
    best = shutil.copytree(tiny_checkpoint, mine / "checkpoints" / "best")
    assert run("inspect", mine).stderr.endswith(f"no checkpoint: name {best}\n")
    hint = f"dragoman: {mine.parent} holds no checkpoint: name one of {best}\n"
    assert run("inspect", mine.parent).stderr == hint
    mean = shutil.copytree(tiny_checkpoint, mine.parent / "mean")
    assert run("inspect", mine.parent).stdout == run("inspect", mean).stdout


@pytest.mark.usefixtures("undrawn")
def test_a_folder_of_pictures_for_each_sentence(run: Run, tmp_path: Path) -> None:
    texts = ["The cat sleeps. The dog sleeps.", "Thank you."]
    result = run("attention", "-s", "en", "-t", "fr", "--output", tmp_path / "maps", *texts)
    assert result.exit_code == 0, result.output
    translations = [line.split("  (")[0] for line in result.stdout.splitlines()]
    assert translations == [
        "The cat sleeps. → Le chat dort.",
        "The dog sleeps. → Le chien dort.",
        "Thank you. → Merci.",
    ]
    for number in (1, 2, 3):
        names = {file.name for file in (tmp_path / "maps" / str(number)).iterdir()}
        assert {"encoder-1.png", "decoder-1.png", "cross-1.png"} <= names


def test_what_is_needed_is_said_in_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.cli.inspect.find_spec", lambda name: None)
    result = run("attention", "-o", tmp_path / "maps", "-t", "fr", "Thank you.")
    assert result.exit_code == 1
    assert result.stderr == "dragoman: pictures need matplotlib: pip install --editable '.[train]'\n"


@pytest.mark.parametrize("text", ["", " \n ", "42"])
def test_a_text_without_a_sentence_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    result = run("attention", "-s", "en", "-t", "fr", "-o", tmp_path / "maps", text)
    assert (result.exit_code, result.stderr) == (
        1,
        "dragoman: nothing to draw: no TEXT has a sentence to translate\n",
    )
    assert not (tmp_path / "maps").exists()
