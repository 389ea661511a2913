import dataclasses
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from model.checkpoint.folder import load_checkpoint
from model.config import preset
from model.decode_request import DecodeRequest
from model.decoding.pytorch import torch_runner
from model.decoding.pytorch.torch_runner import TorchRunner, apply_precision, dtype_of, load_network
from model.decoding.runner import Interrupt
from model.decoding.sentence import Sentence
from model.errors import ConfigError, DecodingError
from model.network.quantisation import Int8Linear
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import finish, run_through
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
    runner = TorchRunner(NETWORK, max_rows=64, max_kv_slots=sum(s.kv_slots for s in arrived))
    runner.admit(arrived)
    with pytest.raises(DecodingError, match="can take 0 more"):
        runner.admit(admitted([request((4, EOS), strategy="greedy")]))
    results = finish(runner)
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
    runner = TorchRunner(network, max_rows=64, max_kv_slots=200)
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


CONFIG = preset("small", source_vocab_size=40, target_vocab_size=40, model_dim=32, num_heads=2, ffn_dim=64)


def test_types_by_name() -> None:
    assert dtype_of("float16", "cpu") == torch.float16
    assert dtype_of("int8", "cpu") == torch.float32
    assert dtype_of("int8", "cuda:1") == torch.bfloat16


def test_only_int8_replaces_layers() -> None:
    assert not _has_int8(apply_precision(Transformer(CONFIG), "float32"))
    assert _has_int8(apply_precision(Transformer(CONFIG), "int8"))


def test_int8_is_refused_where_it_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_runner, "int8_works", lambda _: False)
    with pytest.raises(
        ConfigError, match="`precision` must be auto, float32, bfloat16 or float16 on this cpu"
    ):
        apply_precision(Transformer(CONFIG), "int8")


def test_a_network_is_loaded_after_the_attention_kernels_are_chosen(
    tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[object] = []
    monkeypatch.setattr(torch_runner, "choose_attention_kernels", chosen.append)
    load_network(load_checkpoint(tiny_checkpoint), "cpu", "float32")
    assert chosen == ["cpu"]


def _has_int8(network: Transformer) -> bool:
    return any(isinstance(module, Int8Linear) for module in network.modules())
