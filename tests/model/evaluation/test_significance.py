import random

import pytest

from model.errors import ConfigError
from model.evaluation.scores import score_translations
from model.evaluation.significance import bootstrap, check_seed, compare

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


def test_a_plain_difference_is_found() -> None:
    found = compare(GOOD, BAD, [REFERENCES], "en")
    plain = score_translations(GOOD, [REFERENCES], "en")
    assert found.system["bleu"].score == pytest.approx(plain.bleu)
    assert found.system["chrf"].score == pytest.approx(plain.chrf)
    for metric in ("bleu", "chrf"):
        system, baseline = found.system[metric], found.baseline[metric]
        assert system.score > baseline.score + system.interval + baseline.interval
        assert system.p_value is not None
        assert system.p_value < 0.01
        assert baseline.p_value is None
        assert "bs:1000|seed:12345" in system.signature


def test_chance_is_taken_for_chance() -> None:
    found = compare(damaged(0.2, 3), damaged(0.2, 4), [REFERENCES], "en")
    assert found.system["bleu"].p_value is not None
    assert found.system["bleu"].p_value > 0.05


def test_nothing_differs_from_itself() -> None:
    found = compare(GOOD, GOOD, [REFERENCES], "en")
    assert [estimate.p_value for estimate in found.system.values()] == [1.0, 1.0]


def test_what_no_metric_sees_is_no_difference() -> None:
    spaced = [text.replace(" ", "  ") for text in GOOD]
    found = compare(spaced, GOOD, [REFERENCES], "en", resamples=40)
    assert [estimate.p_value for estimate in found.system.values()] == [1.0, 1.0]


def test_the_seed_decides_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    once = compare(GOOD, BAD, [REFERENCES], "en", resamples=100)
    assert compare(GOOD, BAD, [REFERENCES], "en", resamples=100) == once
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    other = compare(GOOD, BAD, [REFERENCES], "en", resamples=100)
    assert other.system["bleu"].mean != once.system["bleu"].mean
    assert "bs:100|seed:7" in other.system["bleu"].signature


def test_a_seed_of_zero_is_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "0")
    texts = damaged(0.2, 3), damaged(0.2, 4)
    once, again = (compare(*texts, [REFERENCES], "en", resamples=100) for _ in range(2))
    assert once == again
    assert "bs:100|seed:0" in once.system["bleu"].signature
    alone = bootstrap(texts[0], [REFERENCES], "en", resamples=100)
    assert alone["bleu"].mean == pytest.approx(once.system["bleu"].mean)


@pytest.mark.parametrize("seed", ["-1", "today", "1.5", ""])
def test_what_is_no_seed_is_named(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(ConfigError, match="`SACREBLEU_SEED` must be a whole number from 0 up, or none"):
        check_seed()


@pytest.mark.parametrize("seed", ["0", "12345", "None"])
def test_what_is_a_seed_is_left_alone(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    check_seed()


def test_one_system_is_as_sure_alone_as_beside_another() -> None:
    alone, beside = bootstrap(GOOD, [REFERENCES], "en"), compare(BAD, GOOD, [REFERENCES], "en")
    for metric in ("bleu", "chrf"):
        assert alone[metric].mean == pytest.approx(beside.baseline[metric].mean)
        assert alone[metric].interval == pytest.approx(beside.baseline[metric].interval)
        assert alone[metric].interval > 0
    assert "bs:1000|seed:12345" in alone["bleu"].signature


def test_more_references_with_gaps() -> None:
    second = [None if i % 2 else text for i, text in enumerate(GOOD)]
    found = bootstrap(GOOD, [REFERENCES, second], "en", resamples=40)
    assert found["bleu"].score > bootstrap(GOOD, [REFERENCES], "en", resamples=40)["bleu"].score
    assert "nrefs:var" in found["bleu"].signature
