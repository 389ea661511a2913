"""What Marian can hold."""

from dataclasses import replace

import pytest
import torch

from benchmarks.peers.hugging_face import check_marian_holds, export_marian
from benchmarks.shapes import SHAPES, endless_network
from model.errors import ConfigError

CONFIG = SHAPES["tiny"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("norm_position", "pre"),
        ("sinusoid_layout", "interleaved"),
        ("tie", "decoder"),
        ("linear_bias", False),
    ],
)
def test_what_marian_cannot_hold_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"`{field}`"):
        check_marian_holds(replace(CONFIG, **{field: value}))


@torch.inference_mode()
def test_the_exported_network_gives_our_logits() -> None:
    network = endless_network(CONFIG, seed=1)
    source_NS = torch.tensor([[5, 6, 7, CONFIG.eos_id], [8, CONFIG.eos_id, CONFIG.pad_id, CONFIG.pad_id]])
    target_NT = torch.tensor([[CONFIG.decoder_start_id, 9, 10], [CONFIG.decoder_start_id, 11, 12]])
    theirs = export_marian(network).eval()
    expected = theirs(
        input_ids=source_NS,
        attention_mask=(source_NS != CONFIG.pad_id).long(),
        decoder_input_ids=target_NT,
    ).logits
    torch.testing.assert_close(network(source_NS, target_NT), expected, atol=1e-4, rtol=1e-4)
