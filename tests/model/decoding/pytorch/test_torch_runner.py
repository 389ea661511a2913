import dataclasses
import weakref
from collections.abc import Sequence

import pytest
import torch

from model.decode_request import DecodeRequest
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Interrupt
from model.decoding.sentence import Sentence
from model.errors import DecodingError
from tests.model.decoding.arrivals import run_through
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, VOCAB, TableNetwork, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder

NETWORK = lively_network(7)
REFERENCE = ReferenceDecoder(NETWORK)


def admitted(requests: Sequence[DecodeRequest]) -> list[Sentence]:
    return [Sentence.admit(asked, NETWORK.config) for asked in requests]


def test_greedy_agrees_on_all_it_has_and_beams_on_what_they_share() -> None:
    table = {2: {4: 1.0}, 4: {5: 0.6, 6: 0.4}, 5: {7: 1.0}, 6: {8: 1.0}}
    for options, expected in (({"strategy": "greedy"}, (4, 5)), ({"beam_size": 2}, (4,))):
        runner = TorchRunner(TableNetwork(table), max_rows=64)
        sentence = Sentence.admit(request((4, EOS), **options), TableNetwork(table).config)
        runner.admit([sentence])
        assert runner.stable_prefix(sentence) == ()
        runner.advance(Interrupt(), 2)
        assert runner.stable_prefix(sentence) == expected


def test_the_pool_is_full_to_the_last_entry_and_never_fuller() -> None:
    asked = [request(s, beam_size=3, max_length=5) for s in sentences(4, 6, 8)]
    arrived = admitted(asked)
    runner = TorchRunner(NETWORK, max_rows=64, max_positions=sum(s.positions for s in arrived))
    runner.admit(arrived)
    with pytest.raises(DecodingError, match="can take 0 more"):
        runner.admit(admitted([request((4, EOS), strategy="greedy")]))
    results = {}
    while len(results) < 3:
        results.update(runner.advance(Interrupt(), 99).finished)
    for sentence, one in zip(arrived, asked, strict=True):
        assert_same(results[sentence], REFERENCE.decode(one))


def test_weights_may_change_while_nothing_runs() -> None:
    """What positions add to the attention is computed beforehand."""
    network = lively_network(positions="relative")
    runner, source = TorchRunner(network, max_rows=64), sentences(6)[0]
    asked = request(source, strategy="greedy", min_length=9)
    run_through(runner, network.config, {0: [asked]})
    with torch.no_grad():
        network.decoder.relative_bias.weight.mul_(-5)
    results, _ = run_through(runner, network.config, {0: [asked]})
    assert results[0] is not None
    assert_same(results[0], ReferenceDecoder(network).decode(asked))


@torch.inference_mode()
def test_broken_numbers_leave_nothing_behind_in_the_pool() -> None:
    """The sentence after it fills some of the same KV slots."""
    network = lively_network()
    healthy = network.source_embedding.tokens.weight[9].clone()
    network.source_embedding.tokens.weight[9] = torch.nan
    runner = TorchRunner(network, max_rows=64, max_positions=200)
    broken = request((5, 9, 9, 9, 9, EOS), beam_size=4)
    asked = request((5, 6, EOS), beam_size=4, min_length=5)
    results, _ = run_through(runner, network.config, {0: [broken], 2: [asked], 3: [asked]})
    assert isinstance(results[0], DecodingError)
    network.source_embedding.tokens.weight[9] = healthy
    for result in results[1:]:
        assert_same(result, ReferenceDecoder(network).decode(asked))


def test_what_is_never_produced_is_not() -> None:
    asked = [dataclasses.replace(request(s, strategy="sample", seed=1)) for s in sentences(4, 6)]
    never = set(range(4, VOCAB - 1))
    results, _ = run_through(
        TorchRunner(NETWORK, max_rows=64, never_produced=never), NETWORK.config, {0: asked}
    )
    for result in results:
        assert not never & set(result[0].token_ids)


def test_a_closed_runner_gives_its_pool_back() -> None:
    runner = TorchRunner(NETWORK, max_rows=64)
    runner.admit(admitted([request(s) for s in sentences(4)]))
    layers = [weakref.ref(layer) for layer in runner.pool.layers]
    runner.close()
    assert [layer() for layer in layers] == [None] * NETWORK.config.num_decoder_layers
