"""Every setting comes from DRAGOMAN_*, and one that cannot work is refused by name."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import GROUPS, Settings


def test_every_setting_is_described_in_a_group() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    assert {name for group in GROUPS for name in group.model_fields} == set(Settings.model_fields)


def test_values_come_from_the_environment_and_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DRAGOMAN_PORT=1234\nDRAGOMAN_MAX_ITEMS=5\nOTHER=1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_MAX_ITEMS", "6")
    monkeypatch.setenv("DRAGOMAN_CHECKPOINT", "one, two")
    monkeypatch.setenv("DRAGOMAN_LOG_LEVEL", "INFO")
    settings = Settings(max_chars=7)
    assert (settings.port, settings.max_items, settings.max_chars) == (1234, 6, 7)
    assert settings.checkpoint == (Path("one"), Path("two"))
    assert settings.log_level == "info"


REFUSED = {
    "PORT": ("65536",),
    "DEVICE": ("tpu",),
    "PRECISION": ("int1",),
    "LOG_LEVEL": ("loud",),
    "CHECKPOINT": ("",),
    "HOST": ("",),
    "RATE_LIMIT": ("often", "0/minute"),
    "CORS_ORIGINS": (
        *("example.org", "https://example.org/path", "https://*.example.org", "https://example.org?x"),
        *("https://example.org#c", "https://user@example.org", "https://example.org:99999"),
        *("https://example.org:", "https://bücher.example"),
    ),
    "TRUSTED_PROXIES": ("proxy", "10.0.0.1, 10.0.0.0/99"),
    "API_KEYS_FILE": ("/no/such/file",),
    "SUGGESTIONS_FILE": ("/no/such/folder/file", "/"),
    "GLOSSARY_FOLDER": (__file__, f"{__file__}/glossaries"),
    **dict.fromkeys(("MAX_ITEMS", "MAX_QUEUED_TOKENS", "MAX_REQUESTS", "MAX_HELD_BYTES"), ("0",)),
    **dict.fromkeys(("MAX_CHARS", "FAIR_ROWS", "MAX_ENCODE_TOKENS", "MAX_STATE_BYTES"), ("-1",)),
    "MAX_BODY_BYTES": ("0", "268435457"),
    "MAX_TIMEOUT_MS": ("0",),
    "REQUEST_TIMEOUT_MS": ("0", "600001"),
    "WORKERS": ("many", "-1"),
    "DRAIN_SECONDS": ("nan",),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in REFUSED for value in REFUSED[name]])
def test_a_value_that_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"DRAGOMAN_{name}", value)
    with pytest.raises(ValidationError) as refusal:
        Settings(_env_file=None)
    (error,) = refusal.value.errors()
    assert error["loc"] == (name.lower(),)
    assert "pattern" not in error["msg"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_that_cannot_be_written_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, exists: bool
) -> None:
    path = tmp_path / "suggestions"
    if exists:
        path.touch()
    # For root, all files can be written.
    denied = path if exists else tmp_path
    monkeypatch.setattr("os.access", lambda place, mode: place != denied)
    with pytest.raises(ValidationError, match="must name a file that can be written"):
        Settings(_env_file=None, suggestions_file=path)


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("TRUSTED_PROXIES", "*", "*"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, ::1", "10.0.0.0/8, ::1"),
        ("CORS_ORIGINS", "*", ("*",)),
        ("CORS_ORIGINS", "https://a.org, http://localhost:3000", ("https://a.org", "http://localhost:3000")),
        (
            "CORS_ORIGINS",
            "HTTPS://Example.org:443, http://A.b:80, http://[::1]:0443",
            ("https://example.org", "http://a.b", "http://[::1]:443"),
        ),
        ("CORS_ORIGINS", "", ()),
        ("RATE_LIMIT", "", None),
        ("SUGGESTIONS_FILE", "", None),
        ("SUGGESTIONS_FILE", "new.jsonl", Path("new.jsonl")),
        ("GLOSSARY_FOLDER", "", None),
        ("RATE_LIMIT", "5 per 2 seconds", "5 per 2 seconds"),
        ("WORKERS", "auto", 0),
        ("MAX_STATE_BYTES", "auto", 0),
        ("MAX_BATCH_TOKENS", "auto", 0),
        ("MAX_ENCODE_TOKENS", "auto", 0),
        ("FAIR_ROWS", "auto", 0),
    ],
)
def test_a_value_that_can_work_is_taken(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, taken: object
) -> None:
    monkeypatch.setenv(f"DRAGOMAN_{name}", value)
    assert getattr(Settings(_env_file=None), name.lower()) == taken
