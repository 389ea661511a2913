import dataclasses
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training.config_sections import AugmentationConfig
from model.training.data.augmentation.alterations import (
    ALTERATIONS,
    Augmenter,
    SentenceContext,
    capitalised,
    in_capitals,
    in_lower_case,
    in_plain_letters,
    joined,
    punctuated,
    stripped,
    with_typing_errors,
    without_final_stop,
)
from model.training.data.corpus import SentencePair
from model.training.train_config import build
from tests.model.training.parallel_text import made_up_pairs

FRENCH = [
    SentencePair("Come in.", "Entrez."),
    SentencePair("Why?", "Pourquoi ?"),
    SentencePair("No!", "Non !"),
]
CHINESE = [
    SentencePair("I see.", "我明白。"),
    SentencePair("Really?", "真的吗？"),
    SentencePair("Go!", "去！"),
]


def context(pairs: list[SentencePair], *languages: str) -> SentenceContext:
    return SentenceContext(languages[0], languages[1], pairs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Come in.", "Come in"),
        ("Tu viens ?", "Tu viens"),
        ("Wait...", "Wait"),
        ("Really?!", "Really"),
        ("真的吗？", "真的吗"),
        ("¿Vienes?", "Vienes"),
        ("¡Hola! ¿Qué tal?", "¡Hola! Qué tal"),
        ("¿Vienes? Bien.", "¿Vienes? Bien"),
        ("No stop", None),
        ('"Why not?"', None),
        ("...", ""),
    ],
)
def test_final_stop_goes_with_the_space_before_it(text: str, expected: str | None) -> None:
    assert stripped(text) == expected


def test_both_sides_lose_their_stop_or_neither() -> None:
    here = context(FRENCH, "en", "fr")
    assert without_final_stop(FRENCH[1], here, Random(0)) == ("Why", "Pourquoi")
    assert without_final_stop(SentencePair("Why?", "Pourquoi"), here, Random(0)) is None
    assert without_final_stop(SentencePair("?", "Quoi ?"), here, Random(0)) is None


@pytest.mark.parametrize(("pairs", "language", "gap"), [(FRENCH, "fr", " "), (CHINESE, "zh", "")])
def test_joined_sides_keep_in_step(pairs: list[SentencePair], language: str, gap: str) -> None:
    lengths = set()
    for seed in range(30):
        pair = joined(pairs[0], context(pairs, "en", language), Random(seed))
        assert pair is not None
        sentences = _cut(pair.source, [each.source for each in pairs])
        meant = gap.join(dict(pairs)[sentence] for sentence in sentences)
        assert (pair.target, sentences[0]) == (meant, pairs[0].source)
        lengths.add(len(sentences))
    assert lengths == {2, 3}


def test_what_does_not_end_is_not_joined() -> None:
    pair = SentencePair("A caption", "Une légende")
    assert all(joined(pair, context(FRENCH, "en", "fr"), Random(seed)) is None for seed in range(5))


QUOTED = [
    SentencePair("You can come in.", "Sie können herein."),
    SentencePair("Can you see Tom?", "Siehst du Tom?"),
    SentencePair("He can't.", "Er kann nicht, er sieht sie nicht."),
]


def punctuated_copies(
    pair: SentencePair, here: SentenceContext, seeds: int = 300
) -> set[SentencePair | None]:
    return {punctuated(pair, here, Random(seed)) for seed in range(seeds)}


def test_marks_enclose_a_pair_on_both_sides_as_its_languages_write_them() -> None:
    here = context([QUOTED[0]], "en", "de")
    assert punctuated_copies(SentencePair("He can.", "Er kann."), here) == {
        ("(He can.)", "(Er kann.)"),
        ('"He can."', '"Er kann."'),
        ("“He can.”", "„Er kann.“"),
        ("He can (You can come in).", "Er kann (Sie können herein)."),
        ('He can "You can come in".', 'Er kann "Sie können herein".'),
        ("He can “You can come in”.", "Er kann „Sie können herein“."),
    }
    assert punctuated_copies(CHINESE[2], context(CHINESE[:1], "en", "zh")) == {
        ("(Go!)", "（去！）"),
        ('"Go!"', "“去！”"),
        ("“Go!”", "“去！”"),
        ("Go (I see)!", "去（我明白）！"),
        ('Go "I see"!', "去“我明白”！"),
        ("Go “I see”!", "去“我明白”！"),
    }


def test_capitals_within_marks_are_kept_for_names_nouns_and_the_formal_you() -> None:
    copies = punctuated_copies(QUOTED[2], context(QUOTED, "en", "de"))
    assert ("He can't (you can come in).", "Er kann nicht, er sieht sie nicht (Sie können herein).") in copies
    assert ("He can't (can you see Tom?).", "Er kann nicht, er sieht sie nicht (Siehst du Tom?).") in copies


def test_single_words_are_joined_by_a_slash() -> None:
    copies = punctuated_copies(
        SentencePair("Wife", "Frau"), context([SentencePair("man", "Mann")], "en", "de")
    )
    assert copies == {("Wife/man", "Frau/Mann")}
    beside = punctuated_copies(SentencePair("Wife", "Frau"), context([QUOTED[0]], "en", "de"))
    assert not any("/" in copy.source for copy in beside if copy)


def test_long_text_and_text_with_such_marks_is_not_enclosed() -> None:
    for unfit in ("A (b).", "Say «a».", "a" * 101):
        here = context([SentencePair("Yes.", unfit)], "en", "de")
        assert punctuated_copies(SentencePair('Go "now".', "Los."), here) == {None}
    here = context([SentencePair("Yes.", "a" * 100)], "en", "de")
    copies = punctuated_copies(SentencePair('Go "now".', "Los."), here)
    assert ('Go "now" (Yes).', f"Los ({'a' * 100}).") in copies


def test_a_pair_beside_a_long_one_is_enclosed_itself() -> None:
    here = context([SentencePair("Yes.", "a" * 101)], "en", "fr")
    assert punctuated_copies(SentencePair("He can.", "Il peut."), here) == {
        None,
        ("(He can.)", "(Il peut.)"),
        ('"He can."', '"Il peut."'),
        ("“He can.”", "« Il peut. »"),
    }


def test_words_without_spaces_between_them_are_not_joined_by_a_slash() -> None:
    here = context([SentencePair("Run!", "跑！")], "en", "zh")
    assert not any("/" in copy.source for copy in punctuated_copies(CHINESE[2], here) if copy)


def _cut(text: str, known: list[str]) -> list[str]:
    sentences = []
    while text:
        sentences.append(next(each for each in known if text.startswith(each)))
        text = text.removeprefix(sentences[-1]).removeprefix(" ")
    return sentences


PAIR = SentencePair("Where is the Großstadt of Boston?", "Où est la métropole de Boston ?")
WORDS = st.lists(st.text("abcdeéüß", min_size=1, max_size=9), min_size=1, max_size=8)


def languages(source: str, target: str) -> SentenceContext:
    return SentenceContext(source, target, [PAIR])


def test_capitals_are_on_both_sides() -> None:
    assert in_capitals(PAIR, languages("de", "fr"), Random(0)) == (
        "WHERE IS THE GROSSSTADT OF BOSTON?",
        "OÙ EST LA MÉTROPOLE DE BOSTON ?",
    )


def test_a_script_without_case_stays_as_it_is() -> None:
    english, chinese = "Tom is here.", "Tom在这里。"
    to_chinese = in_capitals(SentencePair(english, chinese), languages("en", "zh"), Random(0))
    assert to_chinese == ("TOM IS HERE.", "TOM在这里。")
    assert in_capitals(SentencePair(chinese, english), languages("zh", "en"), Random(0)) is None
    assert in_capitals(SentencePair("ALREADY", "DÉJÀ"), languages("en", "fr"), Random(0)) is None
    assert in_lower_case(SentencePair("你好。", "Hello."), languages("zh", "en"), Random(0)) is None


def test_a_first_capital_is_on_both_sides() -> None:
    assert capitalised(SentencePair("way out", "salida"), languages("en", "es"), Random(0)) == (
        "Way out",
        "Salida",
    )
    assert capitalised(SentencePair("exit", "出口"), languages("en", "zh"), Random(0)) == ("Exit", "出口")
    assert capitalised(SentencePair("izin ver", "let"), languages("tr", "en"), Random(0)) == (
        "İzin ver",
        "Let",
    )


@pytest.mark.parametrize("source", ["Ausgang", "出口", "42 ways", "¿dónde?", "…"])
def test_without_a_small_letter_in_front_there_is_none_to_make(source: str) -> None:
    assert capitalised(SentencePair(source, "exit"), languages("de", "en"), Random(0)) is None


def test_lower_case_is_the_source_alone_and_half_lose_their_stop() -> None:
    seen = [in_lower_case(PAIR, languages("de", "fr"), Random(seed)) for seed in range(100)]
    whole = SentencePair("where is the großstadt of boston?", PAIR.target)
    bare = SentencePair("where is the großstadt of boston", "Où est la métropole de Boston")
    assert set(seen) == {whole, bare}
    assert 30 < seen.count(bare) < 70


@pytest.mark.parametrize(
    ("language", "text", "plain"),
    [
        ("es", "¿Cómo estás?", {"Como estas?"}),
        ("fr", "Où est l'été ?", {"Ou est l'ete ?", "Ou est lete ?"}),
        ("fr", "Sœur", {"Soeur"}),
        ("de", "Schöne Größe", {"Schoene Groesse"}),
        ("de", "ÜBUNG, Übung", {"UEBUNG, Uebung"}),
        ("sv", "Ön är så grön", {"On ar sa gron"}),
        ("pl", "Łódź", {"Lodz"}),
        ("en", "I can't", {"I cant"}),
        ("en", "Come here.", set()),
        ("zh", "我不能。", set()),
        ("ja", "ありがとうございます", set()),
        ("hi", "क्या", set()),
        ("ru", "Мой йод", set()),
    ],
)
def test_plain_letters_are_those_of_any_keyboard(language: str, text: str, plain: set[str]) -> None:
    """Where marks make other letters of them, as in kana, they stay."""
    pair = SentencePair(text, "Cible.")
    seen = {in_plain_letters(pair, languages(language, "fr"), Random(seed)) for seed in range(100)}
    small = {
        in_lower_case(SentencePair(each, "Cible."), languages(language, "fr"), Random(0)) for each in plain
    }
    whole = {copy for copy in seen if copy and copy.target == "Cible."}
    assert {copy.source for copy in whole} == plain | {copy.source for copy in small if copy}
    assert None not in seen or not plain


def test_plain_letters_may_lose_their_stop_with_their_capitals() -> None:
    pair = SentencePair("¿Cómo estás?", "Ça va ?")
    seen = {in_plain_letters(pair, languages("es", "fr"), Random(seed)) for seed in range(100)}
    assert seen == {("Como estas?", "Ça va ?"), ("como estas?", "Ça va ?"), ("como estas", "Ça va")}


@given(WORDS, st.integers(0, 2**32))
def test_slips_are_few_and_in_long_words_of_the_source(words: list[str], seed: int) -> None:
    pair = SentencePair(" ".join(words), "Cible.")
    altered = with_typing_errors(pair, languages("de", "fr"), Random(seed))
    if all(len(word) < 5 for word in words):
        assert altered is None
        return
    assert altered is not None
    assert altered.target == pair.target
    typed = altered.source.split(" ")
    changed = [(word, slip) for word, slip in zip(words, typed, strict=True) if word != slip]
    assert len(changed) <= 2
    for word, slip in changed:
        assert len(word) >= 5
        assert abs(len(word) - len(slip)) <= 1
        assert slip[0] == word[0] or word[0] in "éü"


def test_what_is_not_typed_by_letters_has_no_slips() -> None:
    pair = SentencePair("我百分之百同意Harvard。", "I agree.")
    assert with_typing_errors(pair, languages("zh", "en"), Random(0)) is None


def every_rate(rate: float) -> AugmentationConfig:
    return build(AugmentationConfig, dict.fromkeys(ALTERATIONS, rate), "augmentation")


PAIRS = [SentencePair(f"remember Déjà vu: {source}", target) for source, target in made_up_pairs(1000)]
EVERYTHING = every_rate(0.5)


def copies(config: AugmentationConfig, pairs: list[SentencePair] = PAIRS) -> list[tuple[str, SentencePair]]:
    return [(copy.kind, copy.pair) for copy in Augmenter(config).copies(pairs, "en", "fr")]


def test_every_kind_has_an_alteration_and_a_rate() -> None:
    others = {"words", "seed"}
    fields = {field.name for field in dataclasses.fields(AugmentationConfig)}
    assert set(ALTERATIONS) == set(EVERYTHING.rates) == fields - others


@pytest.mark.parametrize("kind", ALTERATIONS)
def test_a_rate_is_the_expected_number_of_copies(kind: str) -> None:
    for rate in (0.25, 2.0):
        made = copies(build(AugmentationConfig, {kind: rate}, "augmentation"))
        assert {name for name, _ in made} == {kind}
        assert len(made) == pytest.approx(rate * len(PAIRS), rel=0.2)


def test_the_same_pairs_have_the_same_copies() -> None:
    some = PAIRS[:100]
    assert copies(EVERYTHING, some) == copies(EVERYTHING, some)
    assert copies(EVERYTHING, some) != copies(dataclasses.replace(EVERYTHING, seed=1), some)


def test_copies_of_a_pair_do_not_depend_on_its_place() -> None:
    """Copies of the kinds `joined` and `punctuated`, which hold neighbours, are left out."""
    alone = dataclasses.replace(EVERYTHING, joined=0.0, punctuated=0.0)
    assert Counter(copies(alone, PAIRS[:100])) == Counter(copies(alone, PAIRS[99::-1]))


def test_no_copy_is_its_pair() -> None:
    always = every_rate(1.0)
    for pair in PAIRS[:200]:
        assert pair not in [copy for _, copy in copies(always, [pair])]
