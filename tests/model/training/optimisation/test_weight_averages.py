import pytest
import torch
from torch import nn

from model.training.config.optimisation import OptimisationConfig
from model.training.optimisation.weight_averages import WeightAverages


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


def test_window_is_the_mean_of_the_last_snapshots() -> None:
    made = network()
    averages = WeightAverages(made, OptimisationConfig(average_last=3))
    for value in (1.0, 2.0, 4.0, 9.0):
        set_to(made, value)
        averages.take_snapshot()
    assert averages.current()["weight"].unique() == 5.0


def test_window_of_a_moving_average_holds_the_average() -> None:
    made = network()
    averages = WeightAverages(made, OptimisationConfig(ema_decay=0.5, average_last=2))
    set_to(made, 8.0)
    averages.follow(100)
    averages.take_snapshot()
    assert averages.current()["weight"].unique() == 4.0


def test_state_comes_back() -> None:
    config = OptimisationConfig(ema_decay=0.5, average_last=3)
    made, other = network(), network()
    averages, resumed = WeightAverages(made, config), WeightAverages(other, config)
    for step, value in enumerate((1.0, 2.0), start=1):
        set_to(made, value)
        averages.follow(step)
        averages.take_snapshot()
    resumed.load_tensors({name: tensor.clone() for name, tensor in averages.state_tensors().items()})
    for both, same in ((averages, made), (resumed, other)):
        set_to(same, 7.0)
        both.follow(3)
        both.take_snapshot()
    assert all(torch.equal(w, resumed.current()[n]) for n, w in averages.current().items())
