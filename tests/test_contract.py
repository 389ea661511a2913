"""What users rely on is as in `contract.json`: commands, settings, metrics, error codes, presets.

The OpenAPI document is checked apart, in `tests/app/http/test_information.py`.
"""

import json
import os
from pathlib import Path

import click
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.http.errors import STATUSES
from app.settings import GROUPS, default_of, variable
from app.telemetry.metrics import PREFIX, Metrics
from model.cli.main import main
from model.config import PRESETS, preset

GOLDEN = Path(__file__).parent / "contract.json"


def _commands() -> dict[str, list[str]]:
    """The options and arguments of each command; those of `train` are its configuration's fields."""
    context = click.Context(main)
    assert isinstance(main, click.Group)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {
        name: sorted("/".join(parameter.opts) for parameter in command.params)
        for name, command in found.items()
        if command is not None
    }


def _settings() -> dict[str, str]:
    return {
        variable(name): default_of(field) for group in GROUPS for name, field in group.model_fields.items()
    }


def _metrics() -> dict[str, dict[str, object]]:
    registry = Metrics().registry
    exposition = generate_latest(registry).decode()
    labels = {
        each._name: list(getattr(each, "_labelnames", ()))
        for each in registry._collector_to_names
        if hasattr(each, "_name")
    }
    return {
        family.name: {"type": family.type, "labels": labels.get(family.name, [])}
        for family in text_string_to_metric_families(exposition)
        if family.name.startswith(PREFIX)
    }


def _presets() -> dict[str, str]:
    """The layers of the encoder and the decoder, the heads, and the two widths of each."""
    sizes = {name: preset(name, source_vocab_size=99, target_vocab_size=99) for name in PRESETS}
    return {
        name: f"{each.num_encoder_layers}+{each.num_decoder_layers} layers, {each.num_heads} heads,"
        f" {each.model_dim}, {each.ffn_dim}"
        for name, each in sizes.items()
    }


def _contract() -> dict[str, object]:
    return {
        "commands": _commands(),
        "settings": _settings(),
        "metrics": _metrics(),
        "errors": dict(sorted(STATUSES.items())),
        "presets": _presets(),
    }


@pytest.mark.parametrize("part", ["commands", "settings", "metrics", "errors", "presets"])
def test_what_users_rely_on_is_as_before(part: str) -> None:
    """Run with DRAGOMAN_WRITE_GOLDEN=1 to accept a change."""
    now = _contract()
    if os.environ.get("DRAGOMAN_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
    assert now[part] == json.loads(GOLDEN.read_text("utf-8"))[part]
