"""`dragoman import`, also of models of the hub, and `dragoman export`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.importing.importer import needed_files
from tests.model.checkpoint.importing import hugging_face_folders as folders
from tests.model.checkpoint.importing.hub import COMMIT, Hub
from tests.model.cli.conftest import Run

NAME = "Helsinki-NLP/opus-mt-en-fr"
UNWANTED = {"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "tokenizer.json"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin") / "opus-mt-en-fr"
    folders.marian(folder)
    (folder / "README.md").write_text("---\nlanguage: [en, fr]\nlicense: apache-2.0\n---\n")
    for unwanted in UNWANTED:
        (folder / unwanted).write_bytes(b"unwanted")
    return folder


# In a process of its own: the package of the hub reads the environment when it is imported.
IN_A_PROCESS = """
import json, sys
from click.testing import CliRunner
from model.cli import main
results = [CliRunner().invoke(main, command) for command in json.loads(sys.argv[1])]
print(json.dumps([[each.exit_code, each.stdout, each.stderr] for each in results]))
"""


def import_all(outputs: dict[str, Path], *options: str, **environment: str) -> list[tuple[int, str, str]]:
    """Status, output and errors of `dragoman import` for each model in turn."""
    commands = [["import", origin, "-o", str(output), *options] for origin, output in outputs.items()]
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, json.dumps(commands)],
        env={**os.environ, "DRAGOMAN_TRACEBACK": "", "PYTHONPATH": str(Path.cwd()), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [(status, printed, errors) for status, printed, errors in json.loads(done.stdout)]


def provenance(folder: Path) -> dict[str, object]:
    return json.loads((folder / "provenance.json").read_text(encoding="utf-8"))


def test_a_model_of_the_hub_and_one_that_it_lacks(model: Path, tmp_path: Path) -> None:
    hub, output, unwritten = Hub(NAME, model), tmp_path / "en-fr", tmp_path / "unwritten"
    home = {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_secret"}
    with hub.serving() as endpoint:
        models = {NAME: output, "example/missing": unwritten}
        done, missing = import_all(models, "--revision", "main", **home, HF_ENDPOINT=endpoint)
    assert done[:2] == (0, f"Written: {output}\n"), done
    expected = {path.name for path in model.iterdir()}
    # The two SentencePiece models are one, which the cache knows.
    assert {*hub.downloads, "source.spm", "target.spm"} == expected - UNWANTED
    assert "Bearer hf_secret" in hub.tokens
    origin = provenance(output)["origin"]
    assert isinstance(origin, dict)
    assert (origin["source"], origin["revision"], origin["format"]) == (NAME, COMMIT, "hugging-face")
    assert set(origin["files"]) > {"config.json", "model.safetensors", "source.spm", "vocab.json"}
    card = json.loads((output / "config.json").read_text())["card"]
    assert (card["name"], card["version"]) == ("opus-mt-en-fr", COMMIT[:12])
    assert (card["licence"], card["origin"]) == ("apache-2.0", NAME)
    # The cache suffices without a network.
    models = {NAME: tmp_path / "again", "example/missing": unwritten}
    again, offline = import_all(models, **home, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="1")
    assert again[0] == 0, again
    assert provenance(tmp_path / "again")["origin"] == origin
    for status, _, errors in (missing, offline):
        assert (status, errors.count("\n")) == (1, 1)
        assert errors.startswith(f"dragoman: cannot get example/missing from {endpoint}")
    assert not unwritten.exists()


def test_only_one_kind_of_weights_is_needed() -> None:
    names = ["README.md", "config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx", "a.md"]
    assert needed_files(names) == ["README.md", "config.json", "model.safetensors"]
    parts = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    assert needed_files([*parts, "../evil.json"]) == parts
    assert needed_files(["model.bin", "shared_vocabulary.txt"]) == ["shared_vocabulary.txt", "model.bin"]


def test_options_that_cannot_be_meant(run: Run, model: Path, tmp_path: Path) -> None:
    for option in (("--revision", "main"), ("--pair", "english"), ("--pair", "en"), ("--pair", "pt-BR")):
        done = run("import", model, "-o", tmp_path / "output", *option)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"dragoman: {option[0]} ")


@pytest.mark.parametrize("pair", ["eng_Latn-fra", "EN-FR"])
def test_languages_may_be_spelt_as_the_model_spells_them(
    run: Run, model: Path, tmp_path: Path, pair: str
) -> None:
    done = run("import", model, "-o", tmp_path / "output", "--pair", pair)
    assert done.exit_code == 0, done.stderr
    assert load_checkpoint(tmp_path / "output").card.pairs == (("en", "fr"),)


def test_traditional_chinese_is_told_from_simplified(run: Run, tmp_path: Path) -> None:
    folders.marian(model := tmp_path / "model")
    (model / "tokenizer_config.json").write_text("{}")
    for spelt, target in (("zho", "zh"), ("zho_Hant", "zh-Hant"), ("zh_TW", "zh-Hant")):
        done = run("import", model, "-o", tmp_path / spelt, "--pair", f"eng_Latn-{spelt}")
        assert done.exit_code == 0, done.stderr
        assert load_checkpoint(tmp_path / spelt).card.pairs == (("en", target),)


def test_checkpoints_beside_each_other_have_names_of_their_own(run: Run, model: Path, tmp_path: Path) -> None:
    for folder in ("first", "second", "first"):
        assert run("import", model, "-o", tmp_path / folder).exit_code == 0
    names = [load_checkpoint(tmp_path / folder).card.name for folder in ("first", "second")]
    assert names == ["opus-mt-en-fr", "second"]
    named = ("--name", "opus-mt-en-fr", "--storage", "int8")
    assert run("import", model, "-o", tmp_path / "second", *named).exit_code == 0
    second = load_checkpoint(tmp_path / "second")
    assert second.card.name == "opus-mt-en-fr"
    assert set(second.weights.dtypes.values()) == {"int8", "float32"}


def test_a_checkpoint_becomes_a_folder_of_another_framework(
    run: Run, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    output = tmp_path / "ct2"
    result = run("export", tiny_checkpoint, "--format", "ctranslate2", "-o", output, "--quantization", "int8")
    assert (result.exit_code, result.output) == (0, f"Written: {output}\n")
    names = {path.name for path in output.iterdir()}
    assert {"model.bin", "shared_vocabulary.json", "tokenizer.model", "README.md"} <= names


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--format", "onnx"], "Invalid value for '--format': 'onnx' is not one of 'ctranslate2'"),
        (["--format", "marian"], "`norm_position` must be 'post' for marian (as in presets base"),
        (["--format", "pegasus", "--quantization", "int8"], "`quantization` must be one of float32, "),
        ([], "Missing option '--format'."),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(
    run: Run, tiny_checkpoint: Path, tmp_path: Path, options: list[str], line: str
) -> None:
    result = run("export", tiny_checkpoint, "-o", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"dragoman: {line}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
