"""The service is light until its engine is loaded, and never knows the trainer."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.native_library import needs_native

ROOT = Path(__file__).parents[2]
SERVING = """
import sys, time
from starlette.testclient import TestClient
from app.main import create_app
from app.settings import Settings

with TestClient(create_app(Settings(_env_file=None, checkpoint={checkpoint!r}, device="cpu"))) as client:
    until = time.monotonic() + 60
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.01)
    answer = client.post("/translate", json={{"q": "Good morning.", "source": "en", "target": "fr"}})
    assert answer.json()["translatedText"] == "Bonjour."
print(sorted(set({heavy!r}) & set(sys.modules)))
"""
HEAVY = (
    "torch", "torch._dynamo", "sympy", "model.training", "pyrate_limiter", "sacrebleu", "tqdm", "matplotlib",
    "tensorboard", "transformers", "opentelemetry.sdk", "app.telemetry.tracing",
)  # fmt: skip


def _modules(checkpoint: Path) -> str:
    """Which of HEAVY a service loads until it has translated."""
    script = SERVING.format(checkpoint=str(checkpoint), heavy=HEAVY)
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    return result.stdout.strip()


@needs_native
def test_serving_natively_loads_nothing_heavy(tiny_checkpoint: Path) -> None:
    assert _modules(tiny_checkpoint) == "[]"


def test_serving_through_pytorch_loads_nothing_else(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", "off")
    # PyTorch itself takes tqdm where it is installed.
    assert _modules(tiny_checkpoint) == "['torch', 'tqdm']"
