"""`dragoman train`: options, one-line errors, signals; `dragoman report`."""

import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from model.cli.train import nested, train_options
from model.training.data.batches import Batch
from model.training.optimisation.step import Update, Updater
from model.training.run import open_run
from model.training.train_config import TrainConfig
from tests.model.cli.conftest import Run
from tests.model.training.parallel_text import write_corpus
from tests.model.training.several_processes import write_toml
from tests.model.training.tiny_runs import tiny_run, tiny_values
from tests.model.training.waiting import saved_step


@pytest.fixture
def config(tmp_path: Path) -> Path:
    steps = {"max_steps": 20, "save_every": 5, "log_every": 1, "threads": 1}
    values = tiny_values(tmp_path, run=steps) | {"validation_corpora": []}
    write_toml(TrainConfig.from_dict(values), tmp_path / "tiny.toml")
    return tmp_path / "tiny.toml"


def test_a_polite_signal_saves_first(
    run: Run, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test_process_group` sends one to a process."""

    def update(self: Updater, step: int, batches: Sequence[Batch], **progress: float) -> Update:
        if step == 7:
            signal.raise_signal(signal.SIGTERM)
        return work(self, step, batches, **progress)

    work = Updater.update
    monkeypatch.setattr(Updater, "update", update)
    result = run("train", "--config", config)
    assert result.exit_code == 1
    assert saved_step(tmp_path / "run") == 7
    last = "dragoman: interrupted at step 7, whose state is saved; continue with --resume"
    assert result.stderr.splitlines()[-1] == last


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], "checkpoints"),
        (["--validation-corpora", "{corpora}"], "checkpoints and scores"),
        (["--validation-corpora", "{corpora}", "--run.plots", "true"], "checkpoints, scores and report"),
    ],
)
def test_only_what_there_is_is_named_at_the_end(
    run: Run, config: Path, tmp_path: Path, options: list[str], named: str
) -> None:
    path = write_corpus(tmp_path / "valid.tsv", 2, seed=1).path
    corpora = f'[{{path = "{path}", source_language = "en", target_language = "fr"}}]'
    filled = [option.format(corpora=corpora) for option in options]
    result = run("train", "--config", config, "--run.max-steps", "1", "--validation.heat-maps", "0", *filled)
    assert result.stdout == f"Ended by max_steps at step 1; {named} are in {tmp_path / 'run'}\n"


def flags() -> Iterable[str]:
    return (option.opts[0] for option in train_options())


def test_every_value_is_an_option(run: Run) -> None:
    shown = run("train", "--help").output
    assert all(flag in shown for flag in flags())
    expected = {"--corpora", "--optimisation.learning-rate", "--network.ffn-dim", "--decoding.beam-size"}
    assert expected <= set(flags())


def test_options_take_the_shape_of_the_file() -> None:
    options = {"run__max_steps": 3, "network__ffn_dim": None, "validation_corpora": [{"path": "x"}]}
    assert nested(options) == {"run": {"max_steps": 3}, "validation_corpora": [{"path": "x"}]}


@pytest.mark.parametrize(
    ("arguments", "line", "status"),
    [
        (["--config", "{folder}"], "`config` must be a readable TOML file (Is a directory)", 2),
        (["--config", "{folder}/none.toml"], "`config` must be a readable TOML file (No such file", 2),
        ([], "`corpora` must be given, at least one, but is missing", 2),
        (["--batches.max-tokens", "many"], "Invalid value for '--batches.max-tokens'", 2),
        (["--config", "{config}", "--schedule.form", "linear"], "Invalid value for '--schedule.form'", 2),
        (["--config", "{config}", "--network.num-heads", "3"], "`network.num_heads` must be a divisor", 2),
        (["--corpora", "[{"], "'[{' is not a value in TOML's syntax", 2),
        (["--config", "{config}", "--corpora", "{corpora}"], "none.tsv: no such file", 1),
        (["--config", "{config}", "--corpora", "{directory}"], "is a folder", 1),
        (["--config", "{config}", "--corpora", "{empty}"], "empty.tsv: empty, no sentence pair to read", 1),
    ],
)
def test_what_cannot_work_is_one_clear_line(
    run: Run, config: Path, tmp_path: Path, arguments: list[str], line: str, status: int
) -> None:
    (tmp_path / "empty.tsv").touch()
    names = {"corpora": "none.tsv", "directory": ".", "empty": "empty.tsv"}
    tables = {
        key: f'[{{path = "{tmp_path / name}", source_language = "en", target_language = "fr"}}]'
        for key, name in names.items()
    }
    places = {"folder": tmp_path, "config": config, **tables}
    filled = [argument.format(**places) if argument != "[{" else argument for argument in arguments]
    result = run("train", *filled)
    assert result.exit_code == status
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("dragoman: ")
    assert line in last


@pytest.mark.usefixtures("undrawn")
def test_it_names_the_page_it_has_written(run: Run, tmp_path: Path) -> None:
    training = open_run(tiny_run(tmp_path))
    training.run()
    assert not training.folder.report.exists()
    result = run("report", training.folder.root, "--attention", "1")
    assert result.exit_code == 0
    assert Path(result.stdout.strip()) == training.folder.report / "index.html"
    assert (training.folder.report / "attention" / "en-fr-1" / "cross-1.png").exists()


@pytest.mark.parametrize("config", [None, "[", "[]", '{"model_type": "pegasus"}', '{"format_version": 1}'])
def test_what_is_no_run_is_one_line_and_stays_as_it_is(run: Run, tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    before = list(tmp_path.iterdir())
    result = run("report", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    reason = "it has no config.json" if config is None else f"{tmp_path}/config.json is not a run's"
    assert f"{tmp_path} is not the folder of a run: {reason}" in result.stderr
    assert list(tmp_path.iterdir()) == before


def test_without_the_extra_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("model.training.report.page.write_report", missing)
    result = run("report", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == "dragoman: a report needs matplotlib: pip install --editable '.[train]'\n"
