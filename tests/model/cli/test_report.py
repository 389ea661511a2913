"""`dragoman report`: the report of a run, again or at last."""

import shutil
from pathlib import Path

import pytest

from model.training.run import open_run
from tests.model.cli.conftest import Run
from tests.model.training.tiny_runs import tiny_run


@pytest.mark.usefixtures("undrawn")
def test_it_names_the_page_it_has_written(run: Run, tmp_path: Path) -> None:
    training = open_run(tiny_run(tmp_path))
    training.run()
    assert not training.folder.report.exists()
    result = run("report", training.folder.root, "--attention", "1")
    assert result.exit_code == 0
    assert Path(result.stdout.strip()) == training.folder.report / "index.html"
    assert (training.folder.report / "attention" / "en-fr-1" / "cross-1.png").exists()


def test_what_is_no_run_is_one_line(run: Run, tmp_path: Path) -> None:
    result = run("report", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "is not the folder of a run" in result.stderr


def test_a_checkpoint_is_no_run_and_stays_as_it_is(run: Run, tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_checkpoint, tmp_path / "copy")
    result = run("report", folder)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"{folder} is not the folder of a run: {folder}/config.json is not a run's" in result.stderr
    assert sorted(folder.iterdir()) == sorted(folder / file.name for file in tiny_checkpoint.iterdir())


@pytest.mark.parametrize("config", ["[", "[]", '{"model_type": "pegasus"}'])
def test_a_configuration_that_is_no_runs_is_one_line(run: Run, tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    result = run("report", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "config.json is not a run's" in result.stderr


def test_without_the_extra_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("model.training.report.page.write_report", missing)
    result = run("report", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == "dragoman: a report needs matplotlib: pip install --editable '.[train]'\n"
