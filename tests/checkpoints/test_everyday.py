"""What the embedded checkpoint makes of what new users type: not how good it is, but that it makes sense."""

import re
import unicodedata
from collections.abc import Callable, Iterable

import pytest

from model.checkpoint.card import Pair
from model.text.formats.markup import Markup
from model.translation.quality_checks import diagnose
from model.translation.result import Translation
from model.translation.translator import Translator
from tests.checkpoints.everyday import Input, served_inputs

INPUTS = served_inputs()
ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
# Nothing that is typed here grows or shrinks more than this in any direction; letters, as `extent` counts.
FACTOR, OFFSET = 3, 15
HAN_EXTENT = 3
QUESTION_MARKS = ("?", "？")

Answers = dict[Input, Translation]


def typed_in_capitals(asked: Input) -> bool:
    return asked.pair[1] != "zh" and asked.text.isupper() and sum(map(str.isupper, asked.text)) > 3


@pytest.fixture(scope="module")
def answers(translator: Translator) -> Answers:
    """What the checkpoint makes of every input, as the service and the command line would."""
    found: Answers = {}
    for pair in dict.fromkeys(each.pair for each in INPUTS):
        found |= translations(translator, pair, [each for each in INPUTS if each.pair == pair])
    return found


def translations(translator: Translator, pair: Pair, inputs: list[Input]) -> Answers:
    source, target = pair
    results = translator.translate([each.text for each in inputs], source=source, target=target)
    return dict(zip(inputs, results, strict=True))


def wrong(
    answers: Answers, is_met: Callable[[Input, str], bool], asks: Callable[[Input], object] = bool
) -> dict[str, str]:
    """Inputs whose translation does not meet a demand, among those of which it is asked."""
    texts = {asked: answer.text for asked, answer in answers.items() if asks(asked)}
    return {str(asked): text for asked, text in texts.items() if not is_met(asked, text)}


def known(fault: str) -> set[str]:
    """Inputs for which this checkpoint is known not to meet a demand."""
    return {str(asked) for asked in INPUTS if fault in asked.faults}


def test_nothing_looks_broken(answers: Answers) -> None:
    def looks_sound(asked: Input, text: str) -> bool:
        kinds = {
            diagnose(
                sentence.sentence.cleaned,
                sentence.request.source_ids,
                sentence.best,
                sentence.text,
                sentence.target,
            )
            for sentence in answers[asked].sentences
        }
        is_clean = text.strip() and not set("⁇\ufffd") & set(text)
        return bool(is_clean) and (kinds <= {None, "copy"} if asked.same else kinds == {None})

    assert wrong(answers, looks_sound) == {}


def test_it_is_about_as_long(answers: Answers) -> None:
    def is_as_long(asked: Input, text: str) -> bool:
        given, answered = extent(asked.text), extent(text)
        return answered <= FACTOR * given + OFFSET and given <= FACTOR * answered + OFFSET

    assert wrong(answers, is_as_long) == {}


def test_lines_stay_lines(answers: Answers) -> None:
    assert wrong(answers, lambda asked, text: text.count("\n") == asked.text.count("\n")) == {}


def test_it_is_translated(answers: Answers) -> None:
    assert wrong(answers, lambda asked, text: asked.same or core(text) != core(asked.text)) == {}


def test_it_is_in_the_script_of_its_language(answers: Answers) -> None:
    def is_in_script(asked: Input, text: str) -> bool:
        letters = [letter for letter in without_kept(text, asked) if letter.isalpha()]
        if asked.pair[1] == "zh":
            return sum(map(is_han, letters)) >= 0.8 * len(letters) > 0
        return all(unicodedata.name(letter).startswith("LATIN") for letter in letters)

    assert wrong(answers, is_in_script, lambda asked: not asked.same).keys() == known("script")


def test_the_easiest_are_right(answers: Answers) -> None:
    found = wrong(answers, lambda asked, text: core(text) in asked.accept, lambda asked: asked.accept)
    assert found.keys() == known("right")


def test_names_addresses_and_telephone_numbers_are_kept(answers: Answers) -> None:
    found = wrong(answers, lambda asked, text: all(kept in text for kept in kept_parts(asked)))
    assert found.keys() == known("kept")


def test_every_figure_is_kept(answers: Answers) -> None:
    found = wrong(answers, lambda asked, text: figures(text) == figures(asked.text))
    assert found.keys() == known("figures")


def test_a_question_stays_one(answers: Answers) -> None:
    found = wrong(
        answers,
        lambda _, text: text.endswith(QUESTION_MARKS),
        lambda asked: asked.text.endswith(QUESTION_MARKS),
    )
    assert found == {}


def test_capitals_are_answered_in_capitals(answers: Answers) -> None:
    def is_in_capitals(_: Input, text: str) -> bool:
        letters = [letter for letter in text if letter.isalpha()]
        return sum(map(str.isupper, letters)) >= 0.8 * len(letters)

    assert wrong(answers, is_in_capitals, typed_in_capitals) == {}


def extent(text: str) -> int:
    """About how many letters of an alphabet it takes to say this."""
    return sum(HAN_EXTENT if is_han(character) else 1 for character in text)


def is_han(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK UNIFIED")


def core(text: str) -> str:
    """The text in lower case, with plain apostrophes and blanks and no punctuation at either end."""
    plain = " ".join(text.casefold().replace("’", "'").split())
    return re.sub(r"^\W+|\W+$", "", plain)


def figures(text: str) -> list[str]:
    """Its digits, whatever stands between them and in whatever order the groups come."""
    return sorted(filter(str.isdigit, text))


def kept_parts(asked: Input) -> Iterable[str]:
    return (*asked.keeps, *ADDRESS.findall(asked.text))


def without_kept(text: str, asked: Input) -> str:
    for kept in kept_parts(asked):
        text = text.replace(kept, "")
    return text


TAGGED = (
    ("en", "fr", "I <b>love</b> you."),
    ("en", "de", "She gave <i>her brother</i> a <b>new book</b>."),
    ("en", "es", "<p><b>Good morning</b>, how are <em>you</em>?</p>"),
    ("fr", "en", "La <b>voiture <i>rouge</i></b> est très <img src=x>rapide."),
)


def test_tags_do_not_change_the_wording(translator: Translator) -> None:
    tag = re.compile("<[^>]*>")
    found = []
    for source, target, text in TAGGED:
        page = Markup.split(text)
        marked = translator.translate(page.texts, source=source, target=target)
        plain = translator.translate(tag.sub("", text), source=source, target=target)
        result = page.rebuild(marked)
        assert tag.sub("", result) == plain
        assert sorted(tag.findall(result)) == sorted(tag.findall(text))
        found.append(result)
    assert found[:3] == [
        "Je <b>t'aime</b>.",
        "Sie hat <i>ihr Bruder</i> ein <b>neues Buch</b> gegeben.",
        "<p><b>Buenos días</b>, ¿cómo <em>estás</em>?</p>",
    ]
