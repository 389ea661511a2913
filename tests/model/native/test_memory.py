"""The native library without memory, for real: the process may have no more than it has."""

import subprocess
import sys
from pathlib import Path

from tests.model.native_library import needs_native

ROOT = Path(__file__).parents[3]
PROGRAM = """
import resource
from pathlib import Path
from tests.model.decoding.networks import lively_network, request
from tests.model.native_library import native_engine

network = lively_network(ffn_dim=2048, model_dim=64, max_positions=128)
engine = native_engine(network, max_batch_tokens=10**6, max_encode_tokens=10**6)
crowd = [request((5, 6, 7, *[8] * 60, 3), strategy="greedy", max_length=4) for _ in range(100)]
few = crowd[:2]
expected = engine.decode(few)
free = engine._runner.num_free_kv_slots

pages = int(Path("/proc/self/statm").read_text().split()[0])
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**22, limits[1]))
try:
    engine.decode(crowd)
except MemoryError as error:
    print("no memory:", error)
assert engine.is_idle
assert engine._runner.num_free_kv_slots == free, "slots were lost"
assert engine.decode(few) == expected
resource.setrlimit(resource.RLIMIT_AS, limits)
assert len(engine.decode(crowd)) == 100
print("all is well")
"""


@needs_native
def test_what_finds_no_memory_says_so_and_loses_nothing() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "no memory: there is no memory for this in the native library" in ended.stdout
    assert "all is well" in ended.stdout
