import httpx
import pytest

pytestmark = pytest.mark.anyio


async def test_a_text_comes_back_translated(client: httpx.AsyncClient) -> None:
    request = {"q": "where is it?", "source": "en", "target": "fr"}
    response = await client.post("/translate", json=request)
    assert response.status_code == 200
    assert response.json() == {
        "translatedText": "WHERE IS IT?",
        "model": "tiny",
        "model_version": "1+cccccccc",
    }
