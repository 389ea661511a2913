import random

import pytest

from model.errors import ConfigError
from model.evaluation import METRIC_NAMES
from model.evaluation.scores import score_translations
from model.evaluation.significance import bootstrap, check_seed

_WORDS = ("the", "cat", "dog", "house", "river", "sees", "finds", "small", "old", "green", "never")
REFERENCES = [" ".join(random.Random(i).choices(_WORDS, k=8)) for i in range(60)]


def damaged(share: float, seed: int) -> list[str]:
    """Translations of which so many words are wrong."""
    generator = random.Random(seed)
    return [
        " ".join("wrong" if generator.random() < share else word for word in reference.split())
        for reference in REFERENCES
    ]


GOOD, BAD = damaged(0.1, 1), damaged(0.4, 2)


def p_values(translations: list[str], baseline: list[str], **options: int) -> list[float | None]:
    system, _ = bootstrap(translations, [REFERENCES], "en", baseline=baseline, **options)
    return [estimate.p_value for estimate in system.values()]


def test_a_clear_difference_is_significant() -> None:
    system, baseline = bootstrap(GOOD, [REFERENCES], "en", baseline=BAD)
    assert baseline is not None
    plain = score_translations(GOOD, [REFERENCES], "en")
    assert (system["bleu"].score, system["chrf"].score) == pytest.approx((plain.bleu, plain.chrf))
    for metric in METRIC_NAMES:
        one, other = system[metric], baseline[metric]
        assert one.score > other.score + one.interval + other.interval
        assert one.p_value is not None
        assert one.p_value < 0.01
        assert other.p_value is None
        assert "bs:1000|seed:12345" in one.signature


def test_a_difference_by_chance_is_not_significant() -> None:
    bleu, _ = p_values(damaged(0.2, 3), damaged(0.2, 4))
    assert bleu is not None
    assert bleu > 0.05


def test_equal_scores_do_not_differ() -> None:
    spaced = [text.replace(" ", "  ") for text in GOOD]
    assert p_values(GOOD, GOOD, resamples=40) == p_values(spaced, GOOD, resamples=40) == [1.0, 1.0]


@pytest.mark.parametrize("seed", ["0", "7"])
def test_the_seed_decides_and_is_in_the_signature(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    texts = damaged(0.2, 3), damaged(0.2, 4)
    default, _ = bootstrap(texts[0], [REFERENCES], "en", baseline=texts[1], resamples=100)
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    once, again = (
        bootstrap(texts[0], [REFERENCES], "en", baseline=texts[1], resamples=100) for _ in range(2)
    )
    assert once == again
    assert once[0]["bleu"].mean != default["bleu"].mean
    assert f"bs:100|seed:{seed}" in once[0]["bleu"].signature
    alone, _ = bootstrap(texts[0], [REFERENCES], "en", resamples=100)
    assert alone["bleu"].mean == pytest.approx(once[0]["bleu"].mean)


@pytest.mark.parametrize("seed", ["-1", "today", "1.5", ""])
def test_what_is_no_seed_is_named(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(ConfigError, match="`SACREBLEU_SEED` must be a whole number from 0 up, or none"):
        check_seed()


def test_several_references_with_gaps() -> None:
    second = [None if i % 2 else text for i, text in enumerate(GOOD)]
    two, _ = bootstrap(GOOD, [REFERENCES, second], "en", resamples=40)
    one, _ = bootstrap(GOOD, [REFERENCES], "en", resamples=40)
    assert two["bleu"].score > one["bleu"].score
    assert "nrefs:var" in two["bleu"].signature
