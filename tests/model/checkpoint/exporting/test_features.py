"""Features can be renumbered without changing what is computed."""

import torch

from model.checkpoint.exporting.hugging_face import sines_first
from tests.model.tiny_networks import ids, tiny_network


@torch.inference_mode()
def test_the_renumbered_network_gives_the_same_logits() -> None:
    for variant in ({}, {"embedding_norm": True, "tie": "decoder", "output_bias": True, "final_norm": True}):
        network = tiny_network(**variant)
        renumbered = sines_first(network)
        assert renumbered.config.sinusoid_layout == "halves"
        source_NS, target_NT = ids(2, 5), ids(2, 7, seed=4)
        expected = network(source_NS, target_NT)
        torch.testing.assert_close(renumbered(source_NS, target_NT), expected, atol=1e-5, rtol=1e-5)


def test_what_has_its_sines_first_is_left_alone() -> None:
    network = tiny_network(sinusoid_layout="halves")
    assert sines_first(network) is network
