"""`dragoman attention`: pictures for each sentence, and one line where there can be none."""

from pathlib import Path

import pytest

from tests.model.cli.conftest import Run


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
    monkeypatch.setattr("model.cli.attention.find_spec", lambda name: None)
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
