"""Pickles give their tensors and nothing else, and a hostile one runs no code."""

import io
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from model.checkpoint.importing import tensors
from model.checkpoint.importing.tensors import Part, StateDict, unpickle
from model.errors import CheckpointError

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}


class Hostile:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self.path), "w"))


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def compressed() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(2**24))
    return buffer.getvalue()


def test_tensors_are_kept_bit_by_bit_and_tied_ones_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpickle_here(path: Path, folder: Path) -> Path:
        tensors.convert_pickle(path, folder / "result.safetensors")
        return folder / "result.safetensors"

    monkeypatch.setattr(tensors, "_limit_memory", lambda size: None)  # would limit this process, too
    monkeypatch.setattr(tensors, "unpickle", unpickle_here)
    path = tmp_path / "model.pt"
    path.write_bytes(saved({"state_dict": {**TENSORS, "tied": TENSORS["a"]}, "epoch": 7, "loss": [0.5]}))
    weights = StateDict(tmp_path, path)
    assert weights["tied"] == weights["a"]
    for name, tensor in TENSORS.items():
        assert torch.equal(weights.read(Part(name))().torch(), tensor)


@pytest.mark.parametrize("content", [TENSORS, {"model_state_dict": TENSORS, "epoch": 7}, {"model": TENSORS}])
def test_a_state_dict_may_stand_among_other_things(
    content: dict[str, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_limit_memory", lambda size: None)  # would limit this process, too
    (tmp_path / "model.pt").write_bytes(saved(content))
    tensors.convert_pickle(tmp_path / "model.pt", tmp_path / "result.safetensors")
    assert load_file(tmp_path / "result.safetensors").keys() == TENSORS.keys()


HOSTILE: Mapping[str, tuple[Callable[[Path], bytes], str]] = {
    "a program": (lambda proof: saved({"a": Hostile(proof)}), r"it names GLOBAL \w+"),
    "a program in an old pickle": (lambda proof: pickle.dumps(Hostile(proof), 2), r"it names GLOBAL \w+"),
    "a list": (lambda _: saved([1]), "a list instead of tensors by name"),
    "something else than tensors": (lambda _: saved({"a": 1}), "'a' is no tensor"),
    "more numbers than bytes": (lambda _: saved({"a": torch.zeros(1).expand(10**12)}), "allocate memory"),
    "compressed": (lambda _: compressed(), "is compressed"),
    "a damaged archive": (lambda _: b"PK\3\4 and no more", "failed reading zip archive"),
    "text": (lambda _: b"text", "empty list"),
}


@pytest.mark.parametrize(("make", "message"), HOSTILE.values(), ids=HOSTILE)
def test_anything_else_is_refused(
    make: Callable[[Path], bytes], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_limit_memory", lambda size: None)  # would limit this process, too
    (tmp_path / "model.pt").write_bytes(make(tmp_path / "proof"))
    with pytest.raises(Exception, match=message):
        tensors.convert_pickle(tmp_path / "model.pt", tmp_path / "result")
    assert {path.name for path in tmp_path.iterdir()} == {"model.pt"}


def test_the_process_that_reads_a_pickle_tells_why_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(saved({"a": Hostile(tmp_path / "proof")}))
    with pytest.raises(CheckpointError, match=r"holds something else than tensors, .* it names GLOBAL"):
        unpickle(tmp_path / "model.pt", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.pt"}
