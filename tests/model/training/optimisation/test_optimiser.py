import torch

from model.network.transformer import Transformer
from model.training.config.optimisation import OptimisationConfig
from model.training.optimisation.optimiser import build_optimiser, decay_groups
from tests.model.tiny_networks import tiny_config


def names(network: Transformer, group: list[torch.Tensor]) -> set[str]:
    chosen = {id(weight) for weight in group}
    return {name for name, weight in network.named_parameters() if id(weight) in chosen}


def test_matrices_decay_but_no_bias_norm_or_embedding() -> None:
    network = Transformer(tiny_config(positions="learned", norm_position="pre", final_norm=True))
    decay, keep = decay_groups(network)
    assert len(decay) + len(keep) == len(list(network.parameters()))
    assert names(network, decay) == {
        name for name, weight in network.named_parameters() if weight.ndim == 2 and "embedding" not in name
    }
    assert "output.weight" in names(network, decay)
    # 2 encoder layers of 5 matrices, 2 decoder layers of 8, the projection onto the vocabulary.
    assert len(decay) == 2 * 5 + 2 * 8 + 1


def test_a_tied_projection_is_an_embedding() -> None:
    network = Transformer(tiny_config(tie="all"))
    decay, keep = decay_groups(network)
    assert network.output.weight is network.source_embedding.tokens.weight
    assert not any(weight is network.output.weight for weight in decay)
    assert sum(weight is network.output.weight for weight in keep) == 1


def test_only_the_first_group_shrinks_without_a_gradient() -> None:
    network = Transformer(tiny_config())
    config = OptimisationConfig(learning_rate=0.1, weight_decay=0.5)
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    decay, _ = decay_groups(network)
    decaying = names(network, decay)
    optimiser = build_optimiser(network, config)
    for weight in network.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for name, weight in network.named_parameters():
        factor = 1 - 0.1 * 0.5 if name in decaying else 1.0
        torch.testing.assert_close(weight.detach(), before[name] * factor)


def test_settings_reach_the_optimiser() -> None:
    config = OptimisationConfig(beta1=0.8, beta2=0.97, epsilon=1e-7)
    (first, second) = build_optimiser(Transformer(tiny_config()), config).param_groups
    for group in (first, second):
        assert (group["betas"], group["eps"], group["fused"]) == ((0.8, 0.97), 1e-7, True)
