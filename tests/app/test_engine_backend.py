from pathlib import Path

import pytest

from app.engine_backend import EngineBackend
from model.errors import CheckpointError


def test_two_checkpoints_of_one_name_are_refused(tiny_checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="tiny"):
        EngineBackend.load([tiny_checkpoint, tiny_checkpoint], device="cpu", precision="float32")
