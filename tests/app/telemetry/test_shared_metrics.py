"""The files of several processes' metrics; `test_supervisor_live.py` reads the sums."""

from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict

from app.telemetry.shared_metrics import _FILE_BYTES, _allocate


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_file_has_all_its_blocks_and_is_the_librarys(tmp_path: Path, *, is_cleared: bool) -> None:
    path = tmp_path / "counter_0.db"
    _allocate(path, is_cleared=is_cleared)
    before = MmapedDict(str(path))  # type: ignore[no-untyped-call]
    before.write_value("requests", 3.0, 0.0)  # type: ignore[no-untyped-call]
    before.close()  # type: ignore[no-untyped-call]
    _allocate(path, is_cleared=is_cleared)
    assert path.stat().st_blocks * 512 >= _FILE_BYTES == path.stat().st_size
    after = MmapedDict(str(path))  # type: ignore[no-untyped-call]
    found = [(key, value) for key, value, _ in after.read_all_values()]  # type: ignore[no-untyped-call]
    after.close()  # type: ignore[no-untyped-call]
    assert found == ([] if is_cleared else [("requests", 3.0)])
