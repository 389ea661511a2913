"""CTranslate2 computes what our network does, in every variant that it can hold."""

from pathlib import Path

import ctranslate2
import pytest
import torch

from model.checkpoint.exporting.ctranslate2 import check_ctranslate2_holds, transformer_spec
from model.config import TransformerConfig
from model.errors import ConfigError
from model.network.transformer import Transformer
from tests.model.tiny_networks import FAMILY_FEATURES, T5, ids, tiny_config, tiny_network

LENGTHS = (1, 5, 13)
STEPS = 12
VARIANTS: list[dict[str, object]] = [
    {},
    {"norm_position": "pre", "activation": "gelu", "output_bias": True},
    {"norm_position": "pre", "final_norm": True, "embedding_norm": True, "tie": "all"},
    {"norm_epsilon": 0.01, "activation": "silu", "scale_embeddings": False},
    {"attention_bias": False, "ffn_bias": False, "norm_bias": False},
    {"positions": "learned", "attention_bias": False},
    {"positions": "relative", "ffn_bias": False},
    {"positions": "relative_vectors", "relative_max_distance": 3},
    {"positions": "rotary", "norm_bias": False},
    {"sinusoid_layout": "halves"},
    {"tie": "decoder", "vocab_multiple": 8},
    {key: value for key, value in T5.items() if key != "tie"},
    *(
        feature
        for feature in FAMILY_FEATURES
        if not {"decoder_memory", "embedding_norm_epsilon"} & feature.keys()
    ),
]


def translator_of(network: Transformer, folder: Path) -> ctranslate2.Translator:
    """CTranslate2 with the network's weights and numbers for pieces; padding is never produced."""
    config = network.config
    spec = transformer_spec(network, positions=40, never_produced=[config.pad_id])
    spec.register_source_vocabulary([str(i) for i in range(config.source_vocab_size)])
    spec.register_target_vocabulary([str(i) for i in range(config.target_vocab_size)])
    spec.config.eos_token, spec.config.unk_token = str(config.eos_id), str(config.unk_id)
    spec.config.bos_token = spec.config.decoder_start_token = str(config.decoder_start_id)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


def sources(config: TransformerConfig) -> list[list[int]]:
    return [[*ids(n, seed=n, vocab_size=config.source_vocab_size).tolist(), config.eos_id] for n in LENGTHS]


@torch.inference_mode()
def greedy(network: Transformer, source: list[int]) -> tuple[list[int], list[float]]:
    """Tokens before EOS and every log-probability, by teacher forcing on what was chosen so far."""
    config, tokens, values = network.config, [network.config.decoder_start_id], []
    for _ in range(STEPS):
        logits = network(torch.tensor([source]), torch.tensor([tokens]))[0, -1]
        logits[config.pad_id] = float("-inf")
        value, token = logits.log_softmax(-1).max(-1)
        values.append(float(value))
        if token == config.eos_id:
            break
        tokens.append(int(token))
    return tokens[1:], values


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_greedy_tokens_and_scores_are_ours(variant: dict[str, object], tmp_path: Path) -> None:
    network = tiny_network(**{"max_positions": 40, **variant})
    texts = sources(network.config)
    translator = translator_of(network, tmp_path)
    pieces = [list(map(str, text)) for text in texts]
    results = translator.translate_batch(
        pieces, beam_size=1, max_decoding_length=STEPS, min_decoding_length=0
    )
    expected = [greedy(network, text) for text in texts]
    assert [list(map(int, result.hypotheses[0])) for result in results] == [tokens for tokens, _ in expected]
    scored = translator.score_batch(pieces, [list(map(str, tokens)) for tokens, _ in expected])
    for (tokens, values), theirs in zip(expected, scored, strict=True):
        assert theirs.log_probs[: len(tokens)] == pytest.approx(values[: len(tokens)], abs=1e-4)


@pytest.mark.parametrize(
    ("field", "variant"),
    [
        ("norm_form", {"norm_form": "standard_deviation"}),
        ("final_norm", {"final_norm": True}),
        ("embedding_norm_epsilon", {"embedding_norm": True, "embedding_norm_epsilon": 1e-12}),
        ("norm_bias", {"norm_form": "root_mean_square"}),
        ("decoder_memory", {"decoder_memory": "ssru"}),
        ("num_encoder_layers", {"num_encoder_layers": 0}),
        ("num_decoder_layers", {"num_decoder_layers": 0}),
    ],
)
def test_what_it_cannot_hold_is_refused_by_name(field: str, variant: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"^`{field}` must be .* for CTranslate2"):
        check_ctranslate2_holds(tiny_config(**variant))


def test_what_is_never_produced_is_ruled_out_by_the_bias(tmp_path: Path) -> None:
    network = tiny_network(tie="decoder")
    favourite, _ = greedy(network, sources(network.config)[0])
    spec = transformer_spec(network, positions=1, never_produced=[favourite[0]])
    assert spec.decoder.projection.bias[favourite[0]] < -1000
    assert spec.decoder.projection.bias.count_nonzero() == 1
