import hashlib
import json
import subprocess
from pathlib import Path

import pytest
import torch

from model.training.run_folder import writer
from model.training.run_folder.state import Position
from model.training.run_folder.writer import CheckpointRetention, RunDescription, code_version, describe_data
from tests.model.training.tiny_runs import tiny_run

CPU = torch.device("cpu")


def fill(folder: Path, scores: list[float | None], keep_best: int) -> tuple[dict[str, int], dict[int, float]]:
    """The step of each folder that is kept, and the scores, after a checkpoint for each score."""
    retention = CheckpointRetention(folder, keep_best)
    best: float | None = None
    for step, score in enumerate(scores, start=1):

        def save(place: Path, step: int = step) -> None:
            place.mkdir(parents=True, exist_ok=True)
            (place / "step").write_text(str(step))

        is_best = score is not None and (best is None or score > best)
        best = score if is_best else best
        retention.put(step, score, save, is_best=is_best)
    return {path.name: int((path / "step").read_text()) for path in folder.iterdir()}, retention.scores


@pytest.mark.parametrize(
    ("scores", "keep_best", "kept", "kept_scores"),
    [
        ([10, 30, 20, 5], 2, {"last": 4, "best": 2, "step-00000002": 2, "step-00000003": 3}, {2: 30, 3: 20}),
        ([10, 5], 0, {"last": 2, "best": 1}, {}),
        ([None, None], 3, {"last": 2}, {}),
    ],
)
def test_last_best_and_the_n_best_are_kept(
    tmp_path: Path, scores: list[float | None], keep_best: int, kept: dict[str, int], kept_scores: object
) -> None:
    assert fill(tmp_path, scores, keep_best) == (kept, kept_scores)


def test_data_is_named_by_its_checksum(tmp_path: Path) -> None:
    config = tiny_run(tmp_path)
    (described,) = describe_data(config.corpora)
    content = (tmp_path / "train.tsv").read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    assert described["languages"] == ["en", "fr"]
    assert described["files"] == [
        {"name": f"{tmp_path.name}/train.tsv", "bytes": len(content), "sha256": checksum}
    ]


def test_everything_to_know_and_no_place_or_corpus_text(tmp_path: Path) -> None:
    config = tiny_run(tmp_path, vocabulary={"reuse": str(tmp_path / "pieces")})
    samples = {"en-fr": {"bleu": 30.0, "bleu_signature": "s", "samples": [{"source": "secret sentence"}]}}
    description = RunDescription(config=config, data={"train": describe_data(config.corpora)}, device=CPU)
    described = description.provenance(
        Position(step=7, epoch=1.5, tokens=900, seconds=12.34), scores={"bleu": 30.0, "directions": samples}
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


def test_a_commit_is_that_of_our_own_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    author = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
    commit = ["commit", "--quiet", "--allow-empty", "--message", "Begin"]
    subprocess.run(["git", "-C", tmp_path, *author, *commit], check=True)
    for folder, is_named in ((tmp_path, True), (tmp_path / "site-packages", False)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(writer, "_SOURCE", folder)
        code_version.cache_clear()
        assert bool(code_version()["commit"]) == is_named
    code_version.cache_clear()
