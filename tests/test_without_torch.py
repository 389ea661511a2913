"""Where PyTorch is not installed, as in the CPU image: what works, and one line for what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.native_library import needs_native

ROOT = Path(__file__).parents[1]
SERVED = """
import time
from starlette.testclient import TestClient
from app.main import create_app
from app.settings import Settings

with TestClient(create_app(Settings(_env_file=None, checkpoint={checkpoint!r}))) as client:
    until = time.monotonic() + 60
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.01)
    answer = client.post("/translate", json={{"q": "Good morning.", "source": "en", "target": "fr"}})
    print(answer.json()["translatedText"])
"""
TRANSLATED = """
from dragoman import Translator
print(Translator.load({checkpoint!r}).translate("Good morning.", source="en", target="fr"))
Translator.load({checkpoint!r}, precision="float16")
"""
MISSING = "needs PyTorch, which is not installed here: install the extra `torch`"


def run(folder: Path, *arguments: str, text: str = "", **environment: str) -> tuple[str, str]:
    """What a program prints, and the last line of what it says, if importing PyTorch fails."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    environment |= {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout.strip(), done.stderr.strip().rpartition("\n")[2]


def dragoman(folder: Path, *arguments: str, **environment: str) -> tuple[str, str]:
    program = "from model.cli import main; main()"
    return run(folder, "-c", program, *arguments, text="Good morning.\n", **environment)


@needs_native
def test_the_service_and_the_commands_work(tiny_checkpoint: Path, tmp_path: Path) -> None:
    checkpoint = str(tiny_checkpoint)
    assert run(tmp_path, "-c", SERVED.format(checkpoint=checkpoint))[0] == "Bonjour."
    translate = ("translate", "--checkpoint", checkpoint, "--source", "en", "--target", "fr")
    assert dragoman(tmp_path, *translate)[0] == "Bonjour."
    printed, refusal = run(tmp_path, "-c", TRANSLATED.format(checkpoint=checkpoint))
    assert printed == "Bonjour."
    assert f"not in float16) {MISSING}" in refusal
    assert "name: tiny" in dragoman(tmp_path, "inspect", checkpoint)[0]


@pytest.mark.parametrize(
    ("arguments", "environment", "need"),
    [
        (["train", "--config", str(ROOT / "examples" / "d2l.toml")], {}, "`dragoman train`"),
        (["export", "CHECKPOINT", "--format", "marian", "--output", "out"], {}, "`dragoman export`"),
        (["serve"], {"DRAGOMAN_DEVICE": "cuda"}, "the device cuda"),
        (["serve"], {"DRAGOMAN_NATIVE": "off"}, "the native library (DRAGOMAN_NATIVE is off)"),
    ],
    ids=["train", "export", "cuda", "off"],
)
def test_what_needs_torch_says_so(
    arguments: list[str], environment: dict[str, str], need: str, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    arguments = [str(tiny_checkpoint) if each == "CHECKPOINT" else each for each in arguments]
    settings = {"DRAGOMAN_CHECKPOINT": str(tiny_checkpoint), "DRAGOMAN_PORT": "0"} | environment
    assert f"{need} {MISSING}" in dragoman(tmp_path, *arguments, **settings)[1]


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    program = "from pathlib import Path\n"
    program += "from model.checkpoint.importing.tensors import unpickle\n"
    program += "unpickle(Path('pytorch_model.bin'), Path())"
    assert f"reading the pickle pytorch_model.bin {MISSING}" in run(tmp_path, "-c", program)[1]
