import json
from pathlib import Path

import pytest

from model.errors import TokenizerError
from model.text.tokenizer_settings import SETTINGS_FILE, TokenizerSettings, language_tags


def test_settings_survive_the_file(tmp_path: Path) -> None:
    settings = TokenizerSettings(tags=language_tags(["fr", "zh"]), lowercase=True, separate_punctuation=True)
    settings.save(tmp_path)
    assert TokenizerSettings.load(tmp_path) == settings


def test_a_tag_is_named_after_its_language() -> None:
    assert language_tags(["fr"]) == {"fr": "<2fr>"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (TokenizerSettings(), "L'Été  est_là."),
        (TokenizerSettings(lowercase=True), "l'été  est_là."),
        (TokenizerSettings(separate_punctuation=True), "L'Été  est_là ."),
    ],
)
def test_preparing_cleans_and_does_what_is_set(settings: TokenizerSettings, expected: str) -> None:
    assert settings.prepare("L’E\u0301te\u0301\xa0 est\u2581là.\ufeff") == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "`format_version` must be 1"),
        ('{"format_version": 2}', "`format_version` must be 1"),
        ('{"format_version": 1, "colour": "red"}', "unknown setting 'colour'"),
        ('{"format_version": 1, "lowercase": "yes"}', "`lowercase` must be true or false"),
        ('{"format_version": 1, "tags": ["<2fr>"]}', "`tags` must map language codes to pieces"),
        ('{"format_version": 1, "tags": {"fr": ""}}', "`tags` must map language codes to pieces"),
    ],
)
def test_a_file_that_cannot_work_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / SETTINGS_FILE).write_text(content)
    with pytest.raises(TokenizerError, match=SETTINGS_FILE) as caught:
        TokenizerSettings.load(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(b"\xff\xfe{")
    with pytest.raises(TokenizerError, match="is not JSON"):
        TokenizerSettings.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"cannot read .*tokenizer\.json: No such file"):
        TokenizerSettings.load(tmp_path)


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    TokenizerSettings(tags={"zh": "<2zh>"}).save(tmp_path)
    assert json.loads((tmp_path / SETTINGS_FILE).read_text()) == {
        "format_version": 1,
        "tags": {"zh": "<2zh>"},
        "lowercase": False,
        "separate_punctuation": False,
    }
