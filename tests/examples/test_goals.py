"""The recipes of examples/goals: what they train on, and the script that trains, tunes and scores them."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.training.train_config import TrainConfig, load_train_config
from tests.model.training.parallel_text import made_up_pairs

ROOT = Path(__file__).parents[2]
GOALS = ROOT / "examples" / "goals"
RECIPES = sorted(GOALS.glob("*-en-*.toml"))
SMALLER = """
vocabulary = {kind = "char", size = 64, byte_fallback = false}
batches.max_tokens = 800
network = {model_dim = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1, ffn_dim = 16}
schedule.warmup_steps = 2
validation = {every = 3, max_sentences = 4, samples = 0}
run = {max_steps = 3, log_every = 1, precision = "float32", device = "cpu", plots = false}
decoding.max_length = 5
"""


def read(*names: str) -> TrainConfig:
    return load_train_config([GOALS / name for name in names], {})


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_works_as_it_is_and_on_a_cpu_and_never_sees_the_test(recipe: Path) -> None:
    assert len(RECIPES) == 6
    corpus = recipe.stem.partition("-")[0]
    config = read(f"{corpus}.toml", recipe.name)
    assert config.card.name == recipe.stem
    assert Path(config.run.folder) == ROOT / "runs" / "goals" / recipe.stem
    assert set(config.pairs) == {("en", recipe.stem[-2:]), (recipe.stem[-2:], "en")}
    files = {corpus.path for corpus in (*config.corpora, *config.validation_corpora)}
    assert all(file.startswith(str(ROOT / "runs" / "goals" / "data")) for file in files)
    assert not any("test" in Path(file).name for file in files)
    smaller = read(f"{corpus}.toml", recipe.name, f"cpu-{corpus}.toml")
    assert smaller.run.max_minutes > 0
    assert smaller.network.overrides["model_dim"] <= config.network.overrides["model_dim"]


def test_the_run_that_goes_on_reads_what_the_script_before_it_writes() -> None:
    files = ["multi30k.toml", "multi30k-en-de.toml", "cpu-multi30k.toml", "cpu-multi30k-again.toml"]
    before, after = read(*files[:-1]), read(*files)
    assert after.pairs == (("en", "de"),)
    assert after.network == before.network
    assert after.run.start_from == after.vocabulary.reuse == f"{before.run.folder}/checkpoints/best"
    script = (GOALS / "multi30k-en-de.sh").read_text()
    written = {Path(corpus.path).name for corpus in after.corpora if "rewritten" in corpus.path}
    assert written == {f"{name}.tsv.gz" for name in re.findall(r"^rewrite (\w+) ", script, re.MULTILINE)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the folder, next to a link to this Python, with little text in `data`."""
    shutil.copytree(GOALS, tmp_path / "examples" / "goals")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "smaller.toml").write_text(SMALLER)
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate({"train": 60, "val": 6, "test_2016_flickr": 5}.items()):
        for code, texts in zip(("en", "de"), zip(*made_up_pairs(count, seed), strict=True), strict=True):
            text = "".join(f"{line}\n" for line in texts)
            (folder / f"{name}.{code}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


def call(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = tree / "examples" / "goals" / "train.sh"
    return subprocess.run(["bash", script, *arguments], capture_output=True, text=True, check=False, cwd=tree)


@pytest.mark.slow
def test_one_command_trains_tunes_and_scores_both_directions(tree: Path) -> None:
    done = call(tree, "multi30k-en-de", "data", "--config", "smaller.toml")
    assert done.returncode == 0, done.stderr
    best = load_checkpoint(tree / "runs" / "goals" / "multi30k-en-de" / "checkpoints" / "best")
    evaluations = best.provenance["evaluations"]
    assert isinstance(evaluations, dict)
    assert set(evaluations) == {"test en-de", "test de-en"}
    assert evaluations["test en-de"]["sentences"] == 5
    assert "tuning" in best.provenance


def test_a_model_without_a_recipe_is_refused(tree: Path) -> None:
    refused = call(tree, "multi30k-en-xx", "data")
    assert (refused.returncode, "must be one of examples/goals" in refused.stderr) == (2, True)
