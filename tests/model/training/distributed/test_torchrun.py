import pytest

from model.training.distributed import is_distributed


@pytest.mark.parametrize(("size", "among_others"), [(None, False), ("1", False), ("2", True)])
def test_a_process_knows_whether_there_are_others(
    size: str | None, among_others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert is_distributed() == among_others
