import pytest

from model.errors import ConfigError
from model.training.config_sections import RunConfig, ScheduleConfig, ScheduleForm
from model.training.optimisation.schedule import Schedule

WARMUP, PEAK, DIM = 400, 2e-3, 512


def schedule(form: ScheduleForm, *, peak: float = PEAK, max_steps: int = 4000, **values: float) -> Schedule:
    config = ScheduleConfig(form=form, **{"warmup_steps": WARMUP} | values)  # type: ignore[arg-type]
    return Schedule(config, peak, DIM, RunConfig(max_steps=max_steps))


def test_noam_is_the_formula_of_the_paper() -> None:
    noam = schedule("noam", peak=1.0)
    for step in (1, WARMUP // 2, WARMUP, 4 * WARMUP):
        assert noam.rate(step) == pytest.approx(DIM**-0.5 * min(step**-0.5, step * WARMUP**-1.5))
    assert noam.rate(4 * WARMUP) == pytest.approx(noam.rate(WARMUP) / 2)


@pytest.mark.parametrize("form", ["inverse_sqrt", "cosine", "constant"])
def test_warm_up_rises_linearly_to_the_peak(form: ScheduleForm) -> None:
    rates = schedule(form)
    assert rates.rate(1) == pytest.approx(PEAK / WARMUP)
    assert rates.rate(WARMUP // 4) == pytest.approx(PEAK / 4)
    assert rates.rate(WARMUP) == pytest.approx(PEAK)


@pytest.mark.parametrize(
    ("form", "values", "step", "share"),
    [
        ("inverse_sqrt", {}, 4 * WARMUP, 0.5),
        ("inverse_sqrt", {"warmup_steps": 0}, 1, 1),
        ("inverse_sqrt", {"warmup_steps": 0}, 4, 0.5),
        ("constant", {}, 10**6, 1),
        ("cosine", {"minimum_ratio": 0.1}, (WARMUP + 4000) // 2, (0.1 + 1) / 2),
        ("cosine", {"minimum_ratio": 0.1}, 4000, 0.1),
        ("cosine", {"minimum_ratio": 0.1}, 9000, 0.1),
        ("cosine", {"minimum_ratio": 0.0, "total_steps": 1000}, 1000, 0),
    ],
)
def test_after_the_warm_up_each_form_has_its_share_of_the_peak(
    form: ScheduleForm, values: dict[str, float], step: int, share: float
) -> None:
    assert schedule(form, **values).rate(step) == pytest.approx(share * PEAK)


def test_a_cosine_that_ends_within_the_warm_up_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"run\.max_steps"):
        schedule("cosine", max_steps=WARMUP)
    with pytest.raises(ConfigError, match=r"schedule\.total_steps"):
        schedule("cosine", total_steps=WARMUP)


def test_without_a_limit_of_steps_a_cosine_ends_at_the_first_other_limit() -> None:
    config = ScheduleConfig(form="cosine", warmup_steps=WARMUP, minimum_ratio=0.0)
    rates = Schedule(config, PEAK, DIM, RunConfig(max_minutes=60, max_epochs=10))
    assert rates.rate(WARMUP, minutes=30, epoch=1) == pytest.approx(PEAK / 2)
    assert rates.rate(WARMUP, minutes=6, epoch=5) == pytest.approx(PEAK / 2)
    assert rates.rate(WARMUP, minutes=60, epoch=1) == pytest.approx(0)
    by_steps = Schedule(config, PEAK, DIM, RunConfig(max_steps=4000, max_minutes=60))
    assert by_steps.rate((WARMUP + 4000) // 2, minutes=60) == pytest.approx(PEAK / 2)


@pytest.mark.parametrize(
    ("form", "peak", "warned"), [("noam", 1e-3, True), ("noam", 0.5, False), ("cosine", 1e-3, False)]
)
def test_a_rate_that_was_meant_for_another_form_is_logged(
    form: ScheduleForm, peak: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    schedule(form, peak=peak).warn()
    assert ("never exceeds" in caplog.text) == warned
