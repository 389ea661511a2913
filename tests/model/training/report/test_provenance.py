import hashlib
import importlib.metadata
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from model.training.report import provenance as module
from model.training.report.provenance import (
    Position,
    RunDescription,
    code_version,
    describe_data,
    describe_machine,
)
from tests.embedded import ROOT
from tests.model.training.tiny_runs import tiny_run

CPU = torch.device("cpu")


def test_data_is_named_by_its_checksum(tmp_path: Path) -> None:
    config = tiny_run(tmp_path)
    (described,) = describe_data(config.corpora)
    content = (tmp_path / "train.tsv").read_bytes()
    assert described["languages"] == ["en", "fr"]
    assert described["files"] == [
        {
            "name": f"{tmp_path.name}/train.tsv",
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    ]


def test_everything_to_know_and_no_place_or_corpus_text(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, vocabulary={"reuse": str(tmp_path / "pieces")})
    samples = {"en-fr": {"bleu": 30.0, "bleu_signature": "s", "samples": [{"source": "secret sentence"}]}}
    description = RunDescription(config=config, data={"train": describe_data(config.corpora)}, device=CPU)
    described = description.provenance(
        Position(step=7, epoch=1.5, tokens=900, seconds=12.34),
        scores={"bleu": 30.0, "directions": samples},
    )
    text = json.dumps(described)
    assert str(tmp_path.parent) not in text
    assert "secret sentence" not in text
    assert (described["steps"], described["epochs"], described["seconds"]) == (7, 1.5, 12.3)
    assert described["scores"] == {
        "bleu": 30.0,
        "directions": {"en-fr": {"bleu": 30.0, "bleu_signature": "s"}},
    }
    assert described["config"]["run"]["seed"] == 5  # type: ignore[index]


def test_code_and_machine_are_named() -> None:
    assert code_version()["package"]
    assert describe_machine(CPU)["torch"] == torch.__version__


def test_the_commit_is_that_of_the_checkout_which_the_tests_run_from() -> None:
    code_version.cache_clear()
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        assert code_version()["commit"] is None
        return
    head = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert (code_version()["commit"] or "").removesuffix("-dirty") == head.stdout.strip()


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    code_version.cache_clear()
    try:
        assert code_version()["package"] is None
    finally:
        code_version.cache_clear()


def test_a_commit_is_that_of_our_own_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    author = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
    commit = ["commit", "--quiet", "--allow-empty", "--message", "Begin"]
    subprocess.run(["git", "-C", tmp_path, *author, *commit], check=True)
    for folder, is_named in ((tmp_path, True), (tmp_path / "site-packages", False)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(module, "_SOURCE", folder)
        code_version.cache_clear()
        assert bool(code_version()["commit"]) == is_named
    code_version.cache_clear()
