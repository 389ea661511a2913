"""`dragoman serve`: help, and one line about what cannot work."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from app import cli
from app.admission.keys import new_key
from app.cli import serve
from app.settings import Settings, unknown_variable, variable
from tests.app.remote import failed_start


def test_help_lists_every_setting() -> None:
    result = CliRunner().invoke(serve, ["--help"])
    assert result.exit_code == 0
    for name, field in Settings.model_fields.items():
        assert variable(name) in result.output
        assert "--" + name.replace("_", "-") in result.output
        assert field.description


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--port", "70000"], "DRAGOMAN_PORT must be less than or equal to 65535, but is '70000' instead"),
        (["--port", "80x"], "DRAGOMAN_PORT must be a valid integer, but is '80x' instead"),
        (["--host", ""], "DRAGOMAN_HOST must have at least 1 character, but is '' instead"),
        (["--pivot", "maybe"], "DRAGOMAN_PIVOT must be 'on' or 'off', but is 'maybe' instead"),
        (
            ["--rate-limit", "often"],
            "DRAGOMAN_RATE_LIMIT must be a rate such as `100/minute`, but is 'often' instead",
        ),
        (["--checkpoint", ", "], "DRAGOMAN_CHECKPOINT must name a checkpoint folder, but is ', ' instead"),
    ],
)
def test_a_bad_value_stops_the_start_with_its_name_its_range_and_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.telemetry.logs.set_up_logs", lambda level: None)
    result = CliRunner().invoke(serve, options)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {line}")


def test_a_file_of_settings_that_is_no_text_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_bytes(b"DRAGOMAN_HOST=\xff\n")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(serve)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, "Error: the file .env must be UTF-8")


@pytest.mark.parametrize(
    "line", ["DRAGOMAN_API_KEYS_FILE keys", "DRAGOMAN_API_KEYS_FILE: keys", "=5", 'A="1']
)
def test_a_line_of_the_file_of_settings_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (tmp_path / ".env").write_text(f"# a comment\n\nexport OTHER='1'\n\n{line}\n")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(serve, ["--port", "x"])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: line 5 of .env must be NAME=VALUE",
    )


@pytest.mark.parametrize("is_in_file", [False, True])
def test_an_unknown_variable_stops_the_start_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_in_file: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if is_in_file:
        (tmp_path / ".env").write_text("DRAGOMAN_API_KEY_FILE=/keys\n")
    else:
        monkeypatch.setenv("DRAGOMAN_API_KEY_FILE", "/keys")
    result = CliRunner().invoke(serve)
    place = " in .env" if is_in_file else ""
    line = f"Error: DRAGOMAN_API_KEY_FILE{place} is not a setting; the nearest is DRAGOMAN_API_KEYS_FILE"
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, line)


@pytest.mark.parametrize("name", ["DRAGOMAN-MAX-ITEMS", "dragoman-max_items", "DRAGOMAN.MAX.ITEMS"])
def test_a_name_with_other_separators_is_unknown(name: str) -> None:
    assert unknown_variable({name: "1"}) == (name, "DRAGOMAN_MAX_ITEMS")
    assert unknown_variable({f"MY-{name}": "1"}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DRAGOMAN_SERVICE_HOST", "10.0.0.1"),
        ("DRAGOMAN_SERVICE_PORT", "80"),
        ("DRAGOMAN_SERVICE_PORT_HTTP", "80"),
        ("DRAGOMAN_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("DRAGOMAN_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("DRAGOMAN_METRICS_PORT", "tcp://10.0.0.1:9090"),
        ("DRAGOMAN_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("DRAGOMAN_NATIVE", "off"),
        ("dragoman_port", "80"),
        ("DRAGOMANS", "1"),
    ],
)
def test_variables_of_a_cluster_and_of_other_parts_are_not_unknown(name: str, value: str) -> None:
    assert unknown_variable({name: value}) is None
    assert unknown_variable({name: value, "DRAGOMAN_METRICS_PORT": "9090"}) is not None


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("DRAGOMAN_SHORTLIST", "on", "must be off, as checkpoint {folder} has no shortlist"),
        ("DRAGOMAN_NATIVE", "sse", "must be one of auto, off,"),
        ("DRAGOMAN_API_KEYS_FILE", "{folder}/config.json", "must be"),
    ],
)
def test_a_value_that_cannot_work_here_is_named(
    tiny_checkpoint: Path, name: str, value: str, line: str
) -> None:
    value, line = (text.format(folder=tiny_checkpoint) for text in (value, line))
    status, lines = failed_start(DRAGOMAN_CHECKPOINT=str(tiny_checkpoint), **{name: value})
    assert (status, [f"dragoman: {name} {line}" in each for each in lines]) == (2, [True])


def test_a_key_in_place_of_the_file_of_keys_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_API_KEYS_FILE", key := new_key())
    result = CliRunner().invoke(serve)
    assert result.exit_code == 2
    assert "must name an existing file, but is 'dragoman_…' instead" in result.stderr
    assert key not in result.output


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, lines = failed_start(DRAGOMAN_CHECKPOINT=str(tmp_path), DRAGOMAN_PORT=port)
    assert (status, ["DRAGOMAN_PORT" in line for line in lines]) == (2, [True])


@pytest.mark.parametrize(
    ("device", "count"), [("cpu", 4), ("auto", 1), ("cuda", 1), ("cuda:0", 1), ("cuda:1", 1)]
)
def test_a_gpu_has_one_process(device: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "available_cores", lambda: 16)
    monkeypatch.setattr(cli, "may_have_gpu", lambda: True)
    assert cli._num_processes(Settings(device=device, processes=0)) == count
