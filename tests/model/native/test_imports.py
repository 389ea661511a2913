import subprocess
import sys


def test_neither_the_library_nor_its_runner_needs_torch() -> None:
    program = "import sys, model.decoding.native_runner, model.native.build; print('torch' in sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert outcome.stdout == "False\n"
