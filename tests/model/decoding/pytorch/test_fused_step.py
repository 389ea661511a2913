"""Steps by the Triton kernels, in their interpreter, give the tokens of PyTorch's steps."""

import pytest
import torch

from model.decode_request import DecodeRequest
from model.decoding.pytorch import batch_state
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.pytorch.torch_runner import TorchRunner
from model.decoding.runner import Runner
from model.errors import NotFiniteError
from model.network.transformer import Transformer
from tests.model.decoding.arrivals import run_through
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, lively_network, request, sentences
from tests.model.tiny_networks import T5

pytest.importorskip("triton", reason="needs the package triton")


def static(network: Transformer, *, is_fused: bool) -> Runner:
    if is_fused:
        network.decoder.join_projections()
    return StaticRunner(network, "cpu", max_rows=4, widths=(1, 4), capacity=16, is_fused=is_fused)


def exact(network: Transformer, *, is_fused: bool) -> Runner:
    return TorchRunner(network, max_rows=8, is_fused=is_fused)


def require_same(new_runner: type, network: Transformer, arrivals: dict[int, list[DecodeRequest]]) -> None:
    pair = []
    for is_fused in (False, True):
        pair.append(run_through(new_runner(network, is_fused=is_fused), network.config, arrivals)[0])
    for expected, fused in zip(*pair, strict=True):
        assert_same(fused, expected)


ARRIVALS = {
    0: [
        request(sentences(3)[0], strategy="greedy", max_length=4),
        request(sentences(5, seed=1)[0], beam_size=4, max_length=3),
    ],
    2: [request(sentences(4, seed=2)[0], strategy="greedy", max_length=3)],
}


def test_sentences_that_come_and_go() -> None:
    """`test_kernel_check` compares searches of the exact runner."""
    require_same(static, lively_network(7, num_decoder_layers=1), ARRIVALS)


def test_constraints_of_a_greedy_sentence() -> None:
    kinds: list[dict[str, object]] = [{"min_length": 4}, {"suppress_ids": (5, 6)}, {"return_alignment": True}]
    asked = [
        request(s, **{"strategy": "greedy", "max_length": 5, **k})
        for k, s in zip(kinds, sentences(3, 4, 5), strict=True)
    ]
    require_same(
        static, lively_network(7, num_decoder_layers=1), {step: [one] for step, one in enumerate(asked)}
    )


def test_options_of_a_beam() -> None:
    """Stop rules and length penalties are part of the comparison in `model.decoding.pytorch.kernel_check`."""
    kinds: list[dict[str, object]] = [{"min_length": 3, "num_hypotheses": 3}, {"suppress_ids": (5, 6)}]
    asked = [request(s, beam_size=4, max_length=4, **k) for k, s in zip(kinds, sentences(3, 6), strict=True)]
    require_same(
        static, lively_network(7, num_decoder_layers=1), {step: [one] for step, one in enumerate(asked)}
    )


def test_a_wide_beam_is_searched_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_state, "_WIDEST_FUSED_BEAM", 3)
    monkeypatch.delattr(batch_state, "record_beams")
    asked = request(sentences(3)[0], beam_size=4, num_hypotheses=3, max_length=4)
    require_same(exact, lively_network(7, num_decoder_layers=1), {0: [asked]})


# The interpreter computes with NumPy, which warns of what a GPU computes in silence.
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("options", [{"strategy": "greedy"}, {"beam_size": 4}], ids=["greedy", "beam"])
def test_numbers_that_break_end_one_sentence(options: dict[str, object]) -> None:
    network = lively_network(num_decoder_layers=1)
    with torch.no_grad():
        network.source_embedding.tokens.weight[9] = torch.nan
    arrivals = {0: [request(s, max_length=3, **options) for s in ((5, 9, EOS), (5, 6, EOS))]}
    for is_fused in (False, True):
        results, _ = run_through(static(network, is_fused=is_fused), network.config, arrivals)
        assert [type(result) for result in results] == [NotFiniteError, list]


@pytest.mark.parametrize(
    "variant",
    [
        {
            "norm_form": "root_mean_square",
            "norm_position": "post",
            "final_norm": False,
            "positions": "rotary",
        },
        {"decoder_memory": "ssru", "norm_form": "standard_deviation"},
        {name: value for name, value in T5.items() if name != "tie"},
    ],
    ids=["rotary", "ssru", "t5"],
)
def test_every_kind_of_layer(variant: dict[str, object]) -> None:
    greedy = request(sentences(3)[0], strategy="greedy", min_length=2, max_length=2)
    beam = request(sentences(4)[0], beam_size=4, num_hypotheses=4, max_length=2)
    require_same(static, lively_network(**variant), {0: [greedy, beam]})
