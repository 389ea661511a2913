"""Every strategy and option over the running batch equals a slow search that knows no cache and no batch."""

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import strategies as st

from model.decode_request import STOPS, DecodeRequest, Phrase
from model.decoding.engine import DecodingEngine
from model.decoding.factory import torch_engine
from model.decoding.sentence import length_bounds
from model.errors import DecodingError, InputError, TextTooLongError
from model.native.build import VARIANTS
from tests.model.decoding.arrivals import watch_rows
from tests.model.decoding.comparison import assert_same
from tests.model.decoding.networks import EOS, PAD, UNK, VOCAB, lively_network, request, sentences
from tests.model.decoding.reference import ReferenceDecoder, missing
from tests.model.native_library import native_engine, native_library
from tests.model.tiny_networks import FAMILY_FEATURES, T5, tiny_network

OPTIONS: list[dict[str, object]] = [
    {"strategy": "greedy"},
    {"strategy": "greedy", "repetition_penalty": 1.5, "min_length": 4},
    {"strategy": "sample", "seed": 1},
    {"strategy": "sample", "seed": 2, "num_hypotheses": 4, "temperature": 2.0, "top_k": 4, "top_p": 0.7},
    {"strategy": "sample", "seed": 3, "num_hypotheses": 4, "top_p": 0.8, "no_repeat_ngram_size": 1},
    {"strategy": "sample", "seed": 4, "num_hypotheses": 4, "min_p": 0.1, "max_length": 3},
    {"strategy": "beam", "beam_size": 1},
    {"strategy": "beam", "beam_size": 4, "num_hypotheses": 4, "length_penalty": 0.0},
    {"strategy": "beam", "beam_size": 4, "length_penalty": 2.0, "stop": "first"},
    {"strategy": "beam", "beam_size": 4, "length_penalty": 0.6, "length_penalty_form": "gnmt"},
    {"strategy": "beam", "beam_size": 4, "coverage_penalty": 0.3, "num_hypotheses": 2},
    {"strategy": "beam", "beam_size": 4, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
    {"strategy": "beam", "beam_size": 4, "patience": 2.0, "suppress_ids": [5, 7], "min_length_ratio": 1.0},
    {"strategy": "beam", "beam_size": 4, "stop": "all", "max_length": 3, "num_hypotheses": 3},
    {"strategy": "beam", "beam_size": 4, "stop": "count", "max_length": 5, "num_hypotheses": 2},
    {"strategy": "beam", "beam_size": 3, "stop": "pool", "length_penalty": 2.0},
    {"strategy": "beam", "beam_size": 7, "length_penalty": 0.75, "num_hypotheses": 7, "stop": "all"},
]


def many_requests(seed: int = 5) -> list[DecodeRequest]:
    lengths = [2 + 3 * i % 8 for i in range(len(OPTIONS))]
    pairs = zip(sentences(*lengths, seed=seed), OPTIONS, strict=True)
    return [request(source, **options) for source, options in pairs]


NewEngine = Callable[..., DecodingEngine]


@pytest.fixture(params=["torch", *VARIANTS])
def new_engine(request: pytest.FixtureRequest) -> NewEngine:
    """Makes an engine over a network: in PyTorch, or in the native library for one instruction set."""
    if request.param == "torch":
        return torch_engine
    return partial(native_engine, library=native_library(request.param))


def test_every_strategy_in_one_call_equals_the_slow_reference(new_engine: NewEngine) -> None:
    network = lively_network(1)
    requests, reference = many_requests(1), ReferenceDecoder(network)
    for asked, result in zip(requests, new_engine(network).decode(requests), strict=True):
        assert_same(result, reference.decode(asked))


def test_start_tokens_are_given_and_belong_to_no_result(new_engine: NewEngine) -> None:
    network, start = lively_network(), (6, UNK)
    requests = [dataclasses.replace(each, start_ids=start) for each in many_requests()]
    requests[::3] = [dataclasses.replace(each, prefix_ids=(8,)) for each in requests[::3]]
    reference = ReferenceDecoder(network)
    for asked, result in zip(requests, new_engine(network).decode(requests), strict=True):
        assert_same(result, reference.decode(asked))
        assert isinstance(result, list)
        for found in result:
            assert found.token_ids[: len(asked.prefix_ids)] == asked.prefix_ids
            assert found.log_probability == pytest.approx(sum(found.token_log_probabilities))
            longest = asked.options.length_bounds(
                len(asked.source_ids), network.config.max_positions - len(start)
            )[1]
            assert len(found.token_log_probabilities) <= longest


PHRASES: list[tuple[Phrase, ...]] = [
    (((5,),),),
    (((9, 4), (8, 9, 4)), ((6,), (7, 7))),
    (((4, 5, 6),), ((5, 6, 7),)),
    (((10, 10), (11,)),),
    (((6, 12, 6, 5),), ((12, 7),), ((7, 9),)),
    # The same phrase several times; one spelling ends with another.
    (((8, 9), (9,)), ((5, 6),), ((8, 9), (9,)), ((8, 9), (9,))),
    (((7, 7),), ((7, 7),)),
]


WORD_PARTS = bytes(token in (5, 7, 8, 11) for token in range(VOCAB))


def test_required_phrases_are_produced_and_equal_the_slow_reference(new_engine: NewEngine) -> None:
    network, asked = lively_network(1), many_requests(1)
    requests = [
        dataclasses.replace(
            each, phrases=PHRASES[i % len(PHRASES)] if i % 4 else (), word_parts=WORD_PARTS if i % 3 else b""
        )
        for i, each in enumerate(asked)
    ]
    reference = ReferenceDecoder(network)
    num_complete = 0
    for each, result in zip(requests, new_engine(network).decode(requests), strict=True):
        assert_same(result, reference.decode(each))
        assert isinstance(result, list)
        fits = missing(each, ()) < length_bounds(each, network.config)[1] - len(each.prefix_ids)
        is_free = not (each.options.suppress_ids or each.options.no_repeat_ngram_size)
        for found in result:
            assert missing(each, found.token_ids) == 0 or not (found.finished or (fits and is_free))
        num_complete += bool(each.phrases) and result[0].finished
    assert num_complete > 2


STRATEGIES: list[dict[str, object]] = [
    {"strategy": "greedy"},
    {"strategy": "beam", "beam_size": 4, "num_hypotheses": 2},
    {"strategy": "sample", "num_hypotheses": 3, "seed": 1},
]
POSITIONS = ("sinusoidal", "learned", "relative", "rotary")


@pytest.mark.parametrize(
    "variant",
    [
        *({"positions": name, "norm_position": "pre", "final_norm": True} for name in POSITIONS),
        *({"positions": name, "norm_position": "post", "final_norm": False} for name in POSITIONS),
        {"norm_position": "pre", "final_norm": False, "activation": "gelu", "tie": "decoder"},
        {"norm_position": "post", "final_norm": True, "activation": "silu", "tie": "all"},
        {"norm_form": "standard_deviation", "embedding_norm": True, "scale_embeddings": False},
        {
            "attention_bias": False,
            "ffn_bias": False,
            "norm_bias": False,
            "output_bias": False,
            "sinusoid_layout": "halves",
        },
        {"vocab_multiple": 64, "num_encoder_layers": 1, "num_decoder_layers": 3, "num_heads": 4},
        {"positions": "relative_vectors", "relative_max_distance": 3},
        {"positions": "relative_vectors", "attention_dim": 40, "norm_position": "pre"},
        *FAMILY_FEATURES,
        T5,
    ],
    ids=lambda variant: "-".join(map(str, variant.values())),
)
def test_every_architecture_equals_the_slow_reference(
    variant: dict[str, object], new_engine: NewEngine
) -> None:
    network = tiny_network(**{"max_positions": 64, **variant})
    reference = ReferenceDecoder(network)
    requests = [
        request(source, **options, min_length=5, max_length=7)
        for source in sentences(3, 60)  # the native library attends with 24 queries at a time
        for options in STRATEGIES
    ]
    for asked, result in zip(requests, new_engine(network).decode(requests), strict=True):
        assert_same(result, reference.decode(asked))


option_sets = st.fixed_dictionaries(
    {
        "strategy": st.sampled_from(["greedy", "sample", "beam"]),
        "beam_size": st.integers(1, 5),
        "length_penalty": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        "length_penalty_form": st.sampled_from(["power", "gnmt"]),
        "coverage_penalty": st.sampled_from([0.0, 0.2]),
        "patience": st.sampled_from([0.5, 1.0, 2.0]),
        "stop": st.sampled_from(STOPS),
        "temperature": st.sampled_from([0.5, 1.0, 3.0]),
        "top_k": st.integers(0, 5),
        "top_p": st.sampled_from([0.5, 0.9, 1.0]),
        "min_p": st.sampled_from([0.0, 0.2]),
        "seed": st.integers(0, 2**63 - 1),
        "max_length": st.integers(3, 9),
        "min_length": st.integers(0, 3),
        "no_repeat_ngram_size": st.integers(0, 3),
        "repetition_penalty": st.sampled_from([0.8, 1.0, 1.4]),
        "suppress_ids": st.lists(st.integers(4, VOCAB - 1), max_size=3),
    }
)
spellings = st.lists(st.integers(4, VOCAB - 1), min_size=1, max_size=3).map(tuple)
phrases = st.lists(st.lists(spellings, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple)


def test_alignment_is_the_cross_attention_of_each_token_where_it_is_asked_for(new_engine: NewEngine) -> None:
    network = lively_network()
    requests = [
        request(source, return_alignment=aligned, min_length=5, **options)
        for source in sentences(4, 9, 6)
        for options in STRATEGIES
        for aligned in (True, False)
    ]
    reference = ReferenceDecoder(network)
    for asked, result in zip(requests, new_engine(network).decode(requests), strict=True):
        for found in result:
            if not asked.options.return_alignment:
                assert found.alignment is None
                continue
            tokens = found.token_ids
            assert len(tokens) > 0
            expected = reference.attention(asked.source_ids, (*tokens, EOS))[: len(tokens)]
            assert found.alignment is not None
            assert [len(row) for row in found.alignment] == [len(asked.source_ids)] * len(tokens)
            for row, expected_row in zip(found.alignment, expected, strict=True):
                assert row == pytest.approx(expected_row, abs=1e-5)
                assert sum(row) == pytest.approx(1.0, abs=1e-5)


def test_an_empty_translation_is_aligned_to_nothing(new_engine: NewEngine) -> None:
    forbidden = [UNK, *range(4, VOCAB)]
    asked = request((4, EOS), strategy="greedy", suppress_ids=forbidden, return_alignment=True)
    (result,) = new_engine(lively_network()).decode([asked])
    assert (result[0].token_ids, result[0].finished, result[0].alignment) == ((), True, ())


def test_a_network_of_half_precision_is_searched_in_full() -> None:
    network = lively_network().bfloat16()
    options = {"return_alignment": True, "coverage_penalty": 0.5, "min_length": 5}
    result = torch_engine(network).decode([request(sentences(6)[0], **options)])[0]
    best = result[0]
    assert best.log_probability == pytest.approx(sum(best.token_log_probabilities))
    assert best.alignment is not None
    assert all(sum(row) == pytest.approx(1.0, abs=0.02) for row in best.alignment)


def test_finished_rows_leave_the_batch() -> None:
    engine = torch_engine(lively_network())
    rows = watch_rows(engine)
    requests = [request(s, strategy="greedy", no_repeat_ngram_size=1) for s in sentences(*[5] * 8)]
    results = engine.decode(requests)
    lengths = [len(r[0].token_log_probabilities) for r in results if isinstance(r, list)]
    assert len(set(lengths)) > 3
    assert rows == [sum(n > step for n in lengths) for step in range(max(lengths))]


def test_broken_numbers_fail_their_own_sentence_only(new_engine: NewEngine) -> None:
    whole, broken = lively_network(), lively_network()
    with torch.no_grad():
        broken.source_embedding.tokens.weight[9] = torch.nan
    sources = [(5, 6, EOS), (5, 9, EOS), (7, EOS)]
    requests = [request(source, **options) for options in STRATEGIES for source in sources]
    for asked, result in zip(requests, new_engine(broken).decode(requests), strict=True):
        if 9 in asked.source_ids:
            assert isinstance(result, DecodingError)
            assert "not a number" in str(result)
        else:
            assert_same(result, ReferenceDecoder(whole).decode(asked))


def test_options_that_forbid_every_token_fail_their_own_sentence_only(new_engine: NewEngine) -> None:
    source, good = sentences(4, 4)
    impossible = [request(source, **options, suppress_ids=list(range(VOCAB))) for options in STRATEGIES]
    results = new_engine(lively_network()).decode([request(good), *impossible])
    assert isinstance(results[0], list)
    for result in results[1:]:
        assert isinstance(result, DecodingError)
        assert "no token" in str(result)


def test_a_request_that_cannot_be_served_fails_alone() -> None:
    refused: list[tuple[tuple[int, ...], tuple[int, ...], type[InputError], str]] = [
        ((4,) * 17, (), TextTooLongError, "max_positions: 17, at most 16"),
        ((4, PAD), (), InputError, "has 0 instead"),
        ((4,), (5, EOS), InputError, "has 3 instead"),
        ((4,), (5,) * 16, TextTooLongError, "prefix_ids"),
    ]
    good = request(sentences(4)[0])
    asked = [request(source, prefix=prefix) for source, prefix, *_ in refused]
    first, *results, last = torch_engine(lively_network()).decode([good, *asked, good])
    assert isinstance(first, list)
    assert first == last
    for result, (*_, kind, words) in zip(results, refused, strict=True):
        assert isinstance(result, kind)
        assert words in str(result)


def test_padded_vocabulary_ids_are_never_produced() -> None:
    network = lively_network(vocab_multiple=64)
    assert network.output.weight.shape[0] == 64
    sources = sentences(*[5] * 4)
    requests = [request(s, strategy="sample", seed=i, temperature=50.0) for i, s in enumerate(sources)]
    requests += [request(s, beam_size=20, num_hypotheses=20) for s in sources]
    for result in torch_engine(network).decode(requests):
        assert all(token < VOCAB for found in result for token in found.token_ids)
