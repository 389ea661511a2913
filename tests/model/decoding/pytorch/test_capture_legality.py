"""A step of every search and variant of the network could be recorded, and keeps to its budget of kernels."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor

from model.config import ONLY_FOR_TRAINING, PRESETS, TransformerConfig, preset
from model.decode_request import DecodeRequest
from model.decoding.engine import DecodingEngine
from model.decoding.pytorch.batch_state import BatchState
from model.decoding.pytorch.slot_options import ActiveFeatures
from model.decoding.pytorch.static_runner import StaticRunner
from model.decoding.runner import Runner
from model.network.decoder_state import StepShape
from model.network.transformer import Transformer
from tests.model.decoding.networks import VOCAB, lively_network, request, sentences
from tests.model.decoding.pytorch.legality import LegalityCheck
from tests.model.decoding.test_equivalence_reference import many_requests
from tests.model.tiny_networks import T5

Steps = list[LegalityCheck]

SMALL = {"model_dim": 16, "num_heads": 2, "ffn_dim": 24, "num_encoder_layers": 2, "num_decoder_layers": 2}
OTHER_NUMBERS: dict[str, dict[str, object]] = {
    "attention_dim": {"attention_dim": 24},
    "attention_scale": {"attention_scale": 1.0},
    "logit_scale": {"logit_scale": 0.5},
    "norm_epsilon": {"norm_epsilon": 1e-3},
    "embedding_norm_epsilon": {"embedding_norm_epsilon": 1e-3, "embedding_norm": True},
    "sinusoid_offset": {"sinusoid_offset": 2},
    "relative_buckets": {"relative_buckets": 4, "positions": "relative"},
    "relative_max_distance": {"relative_max_distance": 3, "positions": "relative_vectors"},
    "vocab_multiple": {"vocab_multiple": 8},
}
"""For each numeric field that is no size, a network that has another number."""
SIZES = {"source_vocab_size", "target_vocab_size", "max_positions", *SMALL}


def values_of(name: str, hint: object) -> list[dict[str, object]]:
    """Networks with each other value of a field of the configuration; none if it is only a size or an id."""
    default = getattr(TransformerConfig, name, None)
    if name in ONLY_FOR_TRAINING or name in SIZES or name.endswith("_id"):
        return []
    if get_origin(hint) is Literal:
        return [{name: value} for value in get_args(hint) if value != default]
    return [{name: not default}] if hint is bool else [OTHER_NUMBERS[name]]


def small_presets() -> dict[str, dict[str, object]]:
    """The presets that translate, with small sizes."""
    sizes = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, **SMALL}
    layers = ("num_encoder_layers", "num_decoder_layers")
    translators = [name for name in PRESETS if all(PRESETS[name].get(field, 1) for field in layers)]
    return {name: dataclasses.asdict(preset(name, **sizes)) for name in translators}


HINTS = get_type_hints(TransformerConfig)
VARIANTS: dict[str, dict[str, object]] = {
    **{str(variant): variant for name, hint in HINTS.items() for variant in values_of(name, hint)},
    **small_presets(),
    "root mean square, gated": {"norm_form": "root_mean_square", "gated_ffn": True, "activation": "silu"},
    "T5": {name: value for name, value in T5.items() if name != "tie"},
}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """What every step of every runner did."""
    watched: Steps = []
    compute = BatchState.compute

    def watch(
        state: BatchState, shape: StepShape, features: ActiveFeatures, attention: list[Tensor] | None = None
    ) -> None:
        with LegalityCheck() as check:
            compute(state, shape, features, attention)
        watched.append(check)

    monkeypatch.setattr(BatchState, "compute", watch)
    yield watched
    watched.clear()


def static(network: Transformer) -> Runner:
    return StaticRunner(network, "cpu", max_rows=12, widths=(1, 4), capacity=16)


def fused(network: Transformer) -> Runner:
    network.decoder.join_projections()
    return StaticRunner(network, "cpu", max_rows=4, widths=(1, 4), capacity=16, is_fused=True)


def decode(runner: Runner, network: Transformer, asked: list[DecodeRequest]) -> None:
    DecodingEngine(runner, network.config).decode(asked)


def require_legal(steps: Steps) -> None:
    assert steps
    assert [fault for check in steps for fault in check.faults] == []


def test_every_search_and_option(steps: Steps) -> None:
    network, asked = lively_network(), request(sentences(4)[0], max_length=4)
    prefix = dataclasses.replace(asked, prefix_ids=(5,))
    phrases = dataclasses.replace(asked, phrases=(((5, 6), (7,)),))
    short = [dataclasses.replace(each.options, max_length=4) for each in many_requests()]
    every = [dataclasses.replace(asked, options=options) for options in short]
    decode(static(network), network, [*every, prefix, phrases])
    require_legal(steps)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_of_the_network(variant: dict[str, object], steps: Steps) -> None:
    network = lively_network(**variant)
    kinds: list[dict[str, object]] = [{"strategy": "greedy"}, {"beam_size": 4, "coverage_penalty": 0.2}]
    asked = [request(sentences(4)[0], max_length=2, **options) for options in kinds]
    decode(static(network), network, asked)
    require_legal(steps)


GREEDY, BEAM = {"strategy": "greedy"}, {"beam_size": 4}
SAMPLE = {"strategy": "sample", "top_k": 8, "seed": 1}


KERNELS_OF_A_LAYER, KERNELS_OF_A_FUSED_LAYER = 22, 11
OF_TWO_KERNELS = "dragoman.likeliest_tokens.default"


@pytest.mark.parametrize(
    ("kinds", "of_the_rest"),
    [([GREEDY], 60), ([BEAM], 103), ([SAMPLE], 115), ([BEAM, {**SAMPLE, "num_hypotheses": 4}], 181)],
    ids=["greedy", "beam", "sampling", "beam-and-sampling"],
)
def test_a_step_keeps_to_its_budget_of_kernels(
    kinds: list[dict[str, object]], of_the_rest: int, steps: Steps
) -> None:
    """192 kernels for a greedy step of six layers, 235 for a beam, 247 for a sample, 313 for both."""
    for layers in (2, 6):
        network = lively_network(num_decoder_layers=layers)
        asked = [request(sentences(5)[0], max_length=2, **options) for options in kinds]
        decode(static(network), network, asked)
        most = max(len(check.kernels) for check in steps)
        assert most <= layers * KERNELS_OF_A_LAYER + of_the_rest
        steps.clear()


@pytest.mark.parametrize(
    ("options", "of_the_rest"), [(GREEDY, 4), (BEAM, 6), (SAMPLE, 92)], ids=["greedy", "beam", "sampling"]
)
def test_a_fused_step_keeps_to_its_budget_of_kernels(
    options: dict[str, object], of_the_rest: int, steps: Steps
) -> None:
    """70 kernels for a greedy step of six layers, 72 for a beam, 158 for a sample."""
    pytest.importorskip("triton", reason="needs the package triton")
    for layers in (1, 3):
        network = lively_network(num_decoder_layers=layers)
        decode(fused(network), network, [request(sentences(5)[0], max_length=1, **options)])
        require_legal(steps)
        most = max(len(check.kernels) + check.kernels.count(OF_TWO_KERNELS) for check in steps)
        assert most <= layers * KERNELS_OF_A_FUSED_LAYER + of_the_rest
        steps.clear()


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (lambda x: x.sum().item(), "waits for the device"),
        (lambda x: x.nonzero(), "depends on data"),
        (lambda x: x[x > 0], "depends on data"),
        (lambda x: x.masked_select(x > 0), "depends on data"),
        (lambda x: x.unique(), "depends on data"),
        (lambda x: x + torch.tensor([1.0]), "copies between host and device"),
        (lambda x: torch.rand_like(x), "without a seed"),
        (lambda x: torch.nn.functional.dropout(x, 0.5), "without a seed"),
    ],
)
def test_what_a_recording_cannot_hold_is_found(work: Callable[[Tensor], object], fault: str) -> None:
    with torch.inference_mode(), LegalityCheck() as check:
        work(torch.ones(3))
    assert fault in check.faults[0]
