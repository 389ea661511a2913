"""A checkpoint whose numbers are all finite, with which one word cannot be calculated: HTTP's side of it."""

import asyncio
from pathlib import Path

import httpx
import pytest
import torch

from model.checkpoint.folder import save_checkpoint
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from tests.app.conftest import application, serving
from tests.model.native_library import needs_native
from tests.tiny import tiny_card, tiny_config

pytestmark = pytest.mark.anyio
ENGINES = pytest.mark.parametrize("native", [pytest.param("auto", marks=needs_native), "off"])
GOOD = ["Good morning.", "Thank you.", "The cat sleeps.", "Where is the station?"]
BAD = "I am hungry."
WARM_UP = "Congratulations, everything is ready."
DECODING: list[dict[str, object]] = [
    {"strategy": "greedy"},
    {"strategy": "beam", "beam_size": 3},
    {"strategy": "sample", "seed": 7},
]


@pytest.fixture
def overflowing_checkpoint(tmp_path: Path, tiny_tokenizer_folder: Path) -> Path:
    """BAD alone holds a token whose embedding, once scaled, is more than float32 can hold."""
    tokenizer = Tokenizer.load(tiny_tokenizer_folder)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = Transformer(tiny_config(tokenizer, tie="none"))
    harmless = {token for text in (*GOOD, WARM_UP) for token in tokenizer.encode(text, target_language="fr")}
    culprit = (set(tokenizer.encode(BAD, target_language="fr")) - harmless).pop()
    with torch.no_grad():
        network.source_embedding.tokens.weight[culprit] = 3e38
    save_checkpoint(
        tmp_path / "overflowing",
        config=network.config,
        weights=network.state_dict(),
        card=tiny_card(),
        tokenizer_folder=tiny_tokenizer_folder,
        provenance={},
    )
    return tmp_path / "overflowing"


@ENGINES
async def test_only_the_request_that_met_it_is_500(
    overflowing_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, native: str
) -> None:
    monkeypatch.setenv("DRAGOMAN_NATIVE", native)
    async with serving(application(overflowing_checkpoint, workers=1)) as client:

        async def ask(text: str | list[str], decoding: dict[str, object]) -> httpx.Response:
            body = {"q": text, "source": "en", "target": "fr", "decoding": decoding}
            return await client.post("/translate", json=body)

        for decoding in DECODING:
            alone = [(await ask(text, decoding)).json()["translatedText"] for text in GOOD]
            answers = await asyncio.gather(*(ask(text, decoding) for text in [*GOOD[:2], BAD, *GOOD[2:]]))
            broken = answers.pop(2)
            assert (broken.status_code, broken.json()["code"]) == (500, "internal_error")
            assert [answer.json()["translatedText"] for answer in answers] == alone
        together = await ask([*GOOD, BAD], DECODING[0])
        assert together.status_code == 500
        exposition = (await client.get("/metrics")).text
    assert f'failed_sentences_total{{reason="non_finite"}} {len(DECODING) + 1}.0' in exposition
