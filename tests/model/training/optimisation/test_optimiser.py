import pytest
import torch
from torch import nn

from model.network.transformer import Transformer
from model.training.config_sections import OptimisationConfig
from model.training.optimisation.optimiser import WeightAverages, build_optimiser, decay_groups
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


def test_it_takes_torchs_steps_to_the_bit() -> None:
    config = OptimisationConfig(learning_rate=0.1, weight_decay=0.5, beta1=0.8, beta2=0.97, epsilon=1e-7)
    ours, theirs = Transformer(tiny_config()), Transformer(tiny_config())
    theirs.load_state_dict(ours.state_dict())
    optimiser = build_optimiser(ours, config)
    decay, keep = decay_groups(theirs)
    groups = [{"params": decay, "weight_decay": 0.5}, {"params": keep, "weight_decay": 0.0}]
    original = torch.optim.AdamW(groups, lr=0.1, betas=(0.8, 0.97), eps=1e-7, fused=True)
    for _ in range(3):
        optimiser.zero_grad()
        assert all(weight.grad is None for weight in ours.parameters())
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        optimiser.step()
        original.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
        state = optimiser.state[mine]
        assert state.keys() == original.state[other].keys()
        assert all(torch.equal(value, original.state[other][name]) for name, value in state.items())


def network(value: float = 0.0) -> nn.Linear:
    made = nn.Linear(2, 2)
    set_to(made, value)
    return made


def set_to(made: nn.Module, value: float) -> None:
    with torch.no_grad():
        for weight in made.parameters():
            weight.fill_(value)


def test_without_averaging_the_weights_are_current_and_copied() -> None:
    made = network(3.0)
    current = WeightAverages(made, OptimisationConfig()).current()
    set_to(made, 4.0)
    assert current["weight"].unique() == 3.0


def test_moving_average_follows_its_formula() -> None:
    made = network()
    averages = WeightAverages(made, OptimisationConfig(ema_decay=0.9))
    expected = 0.0
    for step in range(1, 200):
        set_to(made, float(step))
        averages.follow(step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    assert float(averages.current()["bias"][0]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("ema_decay", "mean"), [(0.0, 5.0), (0.5, (0.5 + 1.25 + 2.625) / 3)])
def test_window_is_the_mean_of_the_last_snapshots(ema_decay: float, mean: float) -> None:
    """Of the weights, or of their moving average."""
    made = network()
    averages = WeightAverages(made, OptimisationConfig(average_last=3, ema_decay=ema_decay))
    for value in (0.0, 1.0, 2.0, 4.0) if ema_decay else (1.0, 2.0, 4.0, 9.0):
        set_to(made, value)
        averages.follow(100)
        averages.take_snapshot()
    assert averages.current()["weight"].unique() == pytest.approx(mean)
