import pytest
import torch

from model.errors import NativeError
from model.network.transformer import Transformer
from model.request import DecodeOptions, DecodeRequest
from model.training.validation.decoder import ValidationDecoder, new_decoder
from tests.model.tiny_networks import tiny_config

REQUESTS = [
    DecodeRequest(tuple(range(4, 4 + length)), DecodeOptions(strategy="beam", beam_size=2, max_length=8))
    for length in (3, 1, 5, 2)
]


def network() -> Transformer:
    torch.manual_seed(0)
    return Transformer(tiny_config()).eval()


def tokens(decoder: ValidationDecoder) -> list[tuple[int, ...]]:
    results = decoder.decode(REQUESTS)
    decoder.close()
    return [result[0].token_ids for result in results if isinstance(result, list)]


def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NativeError("not here")

    monkeypatch.setattr("model.training.validation.decoder.native_factory", refuse)


def test_natively_the_same_translations_as_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network()
    native = new_decoder(made)
    assert native.name == "native float32"
    found = tokens(native)
    without_the_library(monkeypatch)
    torch_decoder = new_decoder(made)
    assert torch_decoder.name == "torch float32"
    assert tokens(torch_decoder) == found
    assert len(found) == len(REQUESTS)


def test_the_weights_are_those_of_the_moment() -> None:
    made = network()
    first = tokens(new_decoder(made))
    with torch.no_grad():
        made.output.weight.neg_()
    assert tokens(new_decoder(made)) != first


def test_reserved_tokens_are_never_produced() -> None:
    made = network()
    used = {token for sentence in tokens(new_decoder(made)) for token in sentence}
    forbidden = used - {made.config.eos_id}
    assert forbidden
    again = {token for sentence in tokens(new_decoder(made, never_produced=forbidden)) for token in sentence}
    assert not again & forbidden
