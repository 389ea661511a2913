"""Where PyTorch is not installed, as in the CPU image: what works, and one line for what does not.

`tests/app/test_imports.py` shows that the service translates without it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.model.native_library import needs_native

ROOT = Path(__file__).parents[1]
# Each command runs in a fork, with its standard output and error in files of its number.
COMMANDS = """
import json, os, sys
sys.modules["torch"] = None
from dragoman import Translator
from model.checkpoint.importing.tensors import unpickle
from model.cli import main
from pathlib import Path

for place, (arguments, environment) in enumerate(json.loads(sys.argv[1])):
    if os.fork() == 0:
        os.environ.update(environment)
        for stream, name in enumerate(("input", f"{place}.out", f"{place}.err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), stream)
        if arguments[0] == "Translator":
            translator = Translator.load(arguments[1], precision=arguments[2])
            print(translator.translate("Good morning.", source="en", target="fr"))
        elif arguments[0] == "unpickle":
            unpickle(Path(arguments[1]), Path())
        else:
            main(arguments)
        sys.exit()
    os.wait()
"""
MISSING = "needs PyTorch, which is not installed here: install the extra `torch`"


@needs_native
def test_commands_work_or_say_that_they_need_torch(tiny_checkpoint: Path, tmp_path: Path) -> None:
    tiny = str(tiny_checkpoint)
    serve = {"DRAGOMAN_CHECKPOINT": tiny, "DRAGOMAN_PORT": "0"}
    cases: list[tuple[list[str], dict[str, str], str]] = [
        (["translate", "--checkpoint", tiny, "--source", "en", "--target", "fr"], {}, "Bonjour."),
        (["Translator", tiny, "int8"], {}, "Bonjour."),
        (["inspect", tiny], {}, "name: tiny"),
        (["Translator", tiny, "float16"], {}, f"not in float16) {MISSING}"),
        (["unpickle", "pytorch_model.bin"], {}, f"reading the pickle pytorch_model.bin {MISSING}"),
        (["train", "--config", str(ROOT / "examples" / "d2l.toml")], {}, f"`dragoman train` {MISSING}"),
        (["export", tiny, "--format", "marian", "--output", "out"], {}, f"`dragoman export` {MISSING}"),
        (["serve"], serve | {"DRAGOMAN_DEVICE": "cuda"}, f"the device cuda {MISSING}"),
        (
            ["serve"],
            serve | {"DRAGOMAN_NATIVE": "off"},
            f"the native library (DRAGOMAN_NATIVE is off) {MISSING}",
        ),
    ]
    (tmp_path / "input").write_text("Good morning.\n")
    commands = json.dumps([(arguments, environment) for arguments, environment, _ in cases])
    program = [sys.executable, "-c", COMMANDS, commands]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(program, cwd=tmp_path, env=variables, check=True, timeout=300)
    for place, (arguments, _, expected) in enumerate(cases):
        stream = "err" if MISSING in expected else "out"
        told = (tmp_path / f"{place}.{stream}").read_text().strip()
        assert expected in (told.rpartition("\n")[2] if MISSING in expected else told), arguments
