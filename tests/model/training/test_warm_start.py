from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from model.checkpoint.folder import load_checkpoint
from model.errors import CheckpointError, ConfigError
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.training.optimisation.step import Update
from model.training.run import Run, open_run, prepare_run
from tests.model.training.tiny_runs import tiny_run


@pytest.fixture(scope="module")
def origin(finished_run: Run) -> Path:
    """A checkpoint."""
    return finished_run.folder.checkpoints / "last"


def started(folder: Path, origin: Path, **sections: dict[str, Any]) -> Run:
    run = {"start_from": str(origin), **sections.pop("run", {})}
    return open_run(tiny_run(folder, run=run, **sections))


def weights(of: Transformer) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in of.named_parameters()}


def pieces(tokenizer: Tokenizer) -> list[str]:
    return list(tokenizer.pieces(range(tokenizer.target_vocab_size)))


def test_the_same_vocabulary_takes_every_weight(origin: Path, tmp_path: Path) -> None:
    expected = weights(load_checkpoint(origin).network())
    found = weights(started(tmp_path, origin).network)
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_pieces_that_both_vocabularies_know_keep_their_rows(origin: Path, tmp_path: Path) -> None:
    run = started(tmp_path, origin, vocabulary={"size": 24})
    checkpoint = load_checkpoint(origin)
    theirs, ours = pieces(checkpoint.tokenizer), pieces(Tokenizer.load(run.folder.tokenizer))
    common = [piece for piece in ours if piece in theirs]
    assert len(ours) < len(theirs)
    assert len(common) > 10
    before = checkpoint.network().target_embedding.tokens.weight
    after = run.network.target_embedding.tokens.weight
    for piece in common:
        assert torch.equal(after[ours.index(piece)], before[theirs.index(piece)]), piece


def test_new_pieces_keep_their_first_values(origin: Path, tmp_path: Path) -> None:
    tiny_run(tmp_path)  # writes the corpus
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as corpus:
        corpus.writelines(f"{number} dog Ω\t{number} chien Ω\n" for number in range(100, 150))
    run = started(tmp_path, origin, vocabulary={"size": 80})
    torch.manual_seed(run.config.run.seed)
    first = Transformer(run.network.config).target_embedding.tokens.weight
    row = pieces(Tokenizer.load(run.folder.tokenizer)).index("Ω")
    assert torch.equal(run.network.target_embedding.tokens.weight[row], first[row])


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("origin", r"`network\.ffn_dim` must be 16, as in the checkpoint to start from, but is 32"),
        ("nowhere", "nowhere does not exist"),
    ],
)
def test_it_is_refused_before_any_text_is_read(
    origin: Path, tmp_path: Path, start: str, message: str
) -> None:
    folder = {"origin": origin, "nowhere": tmp_path / "nowhere"}[start]
    config = tiny_run(tmp_path, run={"start_from": str(folder)}, network={"ffn_dim": 32})
    for begin in (open_run, prepare_run):
        with pytest.raises((CheckpointError, ConfigError), match=message):
            begin(config)
    assert not (tmp_path / "run").exists()


def test_another_dropout_is_not(origin: Path, tmp_path: Path) -> None:
    assert started(tmp_path, origin, network={"residual_dropout": 0.3}).network.config.residual_dropout == 0.3


def test_resuming_does_not_start_again(origin: Path, tmp_path: Path) -> None:
    limits: dict[str, Any] = {"start_from": str(origin), "max_steps": 2}
    open_run(tiny_run(tmp_path, run=limits)).run()
    begun: list[int] = []

    def note(step: int, update: Update) -> None:
        begun.append(step)

    resumed = open_run(tiny_run(tmp_path, run=limits | {"max_steps": 3}), resume=True, hook=note)
    before = weights(load_checkpoint(origin).network())
    assert any(not torch.equal(before[name], weight) for name, weight in weights(resumed.network).items())
    resumed.run()
    assert begun == [3]
