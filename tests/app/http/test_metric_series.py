"""Nothing that a client makes up becomes a metric series."""

import random
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import Serve
from tests.app.double import write_keys

pytestmark = pytest.mark.anyio


def series(text: str) -> set[str]:
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


async def ask_at_random(client: httpx.AsyncClient, chance: random.Random) -> None:
    """One of each kind of request that holds something made up."""
    word = f"{chance.getrandbits(64):x}"
    await client.get(f"/{word}")
    await client.get(f"/web/{word}.js")
    await client.get(f"/translate/{word}?{word}={word}")
    await client.request(word.upper(), "/translate")
    body = {"q": word, "source": "en", "target": "fr"}
    for field in ("source", "target", "model", "format", word):
        await client.post("/translate", json=body | {field: word})
    headers = {
        "Authorization": f"Bearer {word}",
        "X-Request-ID": word,
        "User-Agent": word,
        "Origin": f"http://{word}",
    }
    await client.post("/translate", json=body, headers=headers)
    await client.post("/v2/translate", json={"text": word, "target_lang": word})
    await client.post("/detect", json={"q": word})


@pytest.mark.parametrize("has_keys", [True, False])
async def test_made_up_paths_methods_and_languages_add_no_series(
    serve: Serve, tmp_path: Path, has_keys: bool
) -> None:
    chance = random.Random(1)
    settings = {"api_keys_file": write_keys(tmp_path, alice="one")} if has_keys else {}
    async with serve(**settings) as client:
        await ask_at_random(client, chance)
        before = series((await client.get("/metrics")).text)
        for _ in range(3):
            await ask_at_random(client, chance)
        assert series((await client.get("/metrics")).text) == before
