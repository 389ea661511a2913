"""An import takes little more memory than its result."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.model.checkpoint.importing import hugging_face_folders as folders
from tests.model.checkpoint.importing.marian.folders import make
from tests.model.checkpoint.importing.marian.networks import FIREFOX, random_tensors, write_npz
from tests.model.native_library import needs_native

_ROWS, _WIDTH = 24_000, 512
_PEAK = """
import sys
from pathlib import Path
import model.checkpoint.importing.formats.hugging_face_folder
import model.checkpoint.importing.formats.marian_folder
import model.decoding.factory
from model.checkpoint.importing.importer import import_model
from model.cli.conversion import _record
from model.native.binding import load_library

def bytes_of(key):
    (line,) = [line for line in open("/proc/self/status") if line.startswith(key)]
    return int(line.split()[1]) * 1024

load_library()
before = bytes_of("VmRSS")
import_model(Path(sys.argv[1]), Path(sys.argv[2]), storage=sys.argv[3], verify=_record)
print(bytes_of("VmHWM") - before)
"""


def opus_mt(folder: Path) -> Path:
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_attention_heads": 8}
    folders.marian(folder, rows=_ROWS, d_model=_WIDTH, decoder_attention_heads=8, **sizes)
    return folder


def marian(folder: Path) -> Path:
    made = make(folder, layout="npz").folder
    config = {**FIREFOX, "dim-emb": _WIDTH}
    write_npz(made / "model.enfr.npz", config, random_tensors(config, (_ROWS, _ROWS)))
    return made


@needs_native
@pytest.mark.parametrize("made", [opus_mt, marian])
def test_memory_is_little_more_than_the_result(made: Callable[[Path], Path], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        _PEAK,
        str(made(tmp_path / "opus-mt-en-fr")),
        str(tmp_path / "ours"),
        "int8",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    result = sum(path.stat().st_size for path in (tmp_path / "ours").iterdir())
    # The vocabulary, the tokenizer and blocks of rows, whatever the size of the network.
    assert int(done.stdout) <= 1.3 * result + 16 * 2**20
