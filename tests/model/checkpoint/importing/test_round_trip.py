"""What is exported and imported again, or imported and exported, translates as before."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from model.checkpoint.exporting.export import export_checkpoint
from model.checkpoint.folder import Checkpoint, load_checkpoint
from model.checkpoint.importing.importer import import_model
from model.decode_request import DecodeOptions, DecodeRequest
from model.decoding.factory import torch_factory
from model.network.transformer import Transformer
from tests.conftest import PHRASES
from tests.model.tiny_networks import randomised
from tests.tiny import save_network

GREEDY = DecodeOptions(strategy="greedy", max_length=20)


def tokens(checkpoint: Checkpoint, sources: Sequence[list[int]]) -> list[tuple[int, ...]]:
    engine = torch_factory(checkpoint, "cpu", "float32").make()
    asked = [DecodeRequest(tuple(ids), GREEDY) for ids in sources]
    return [result[0].token_ids for result in engine.decode(asked)]


@pytest.fixture(params=["pegasus", "marian"])
def own(request: pytest.FixtureRequest, tiny_checkpoint: Path, tmp_path: Path) -> tuple[str, Checkpoint]:
    """A checkpoint of ours that can be exported to this architecture."""
    checkpoint = load_checkpoint(tiny_checkpoint)
    if request.param == "marian":
        config = replace(checkpoint.config, norm_position="post", final_norm=False, output_bias=True)
        tokenizer = shutil.copytree(checkpoint.folder, tmp_path / "tokenizer")
        replace(checkpoint.tokenizer.settings, space_after_marks=True).save(tokenizer)
        save_network(tmp_path / "own", randomised(Transformer(config)), tokenizer, card=checkpoint.card)
        checkpoint = load_checkpoint(tmp_path / "own")
    return request.param, checkpoint


def test_an_export_comes_back(own: tuple[str, Checkpoint], tmp_path: Path) -> None:
    architecture, before = own
    export_checkpoint(before, tmp_path / "exported", architecture)
    import_model(tmp_path / "exported", tmp_path / "imported")
    after = load_checkpoint(tmp_path / "imported")
    assert set(after.card.pairs) == set(before.card.pairs)
    texts = [*(text for pair in PHRASES for text in pair), "It’s LATE\u2026", "Œuvre", "The (cat)"]
    is_spaced = before.tokenizer.settings.space_after_marks
    assert after.tokenizer.settings.space_after_marks is is_spaced is (architecture == "marian")
    assert ("a slash or a dash" in (tmp_path / "exported" / "README.md").read_text()) is is_spaced
    sources = [before.tokenizer.encode(text, target_language="fr") for text in texts]
    assert [after.tokenizer.encode(text, target_language="fr") for text in texts] == sources
    found = tokens(before, sources)
    assert tokens(after, sources) == found
    assert [after.tokenizer.decode(ids) for ids in found] == [before.tokenizer.decode(ids) for ids in found]
