"""`dragoman export`: a folder, or one line that says why not."""

from pathlib import Path

import pytest

from tests.model.cli.conftest import Run


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
