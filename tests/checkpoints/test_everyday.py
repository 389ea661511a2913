"""What the embedded checkpoint makes of what new users type: not how good it is, but that it makes sense."""

import re
import unicodedata
from collections.abc import Callable, Iterable

import pytest

from model.checkpoint.card import Pair
from model.translation.quality_checks import diagnose
from model.translation.result import Translation
from model.translation.translator import Translator
from tests.checkpoints.everyday import Input, served_inputs
from tests.embedded import EMBEDDED

INPUTS = served_inputs()
ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
# Nothing that is typed here grows or shrinks more than this in any direction; letters, as `extent` counts.
FACTOR, OFFSET = 3, 15
HAN_EXTENT = 3
QUESTION_MARKS = ("?", "？")
KNOWN_FAULT = pytest.mark.xfail(reason="a known fault of this checkpoint", strict=True)

Answers = dict[Input, Translation]


def where(condition: Callable[[Input], object], demand: str = "") -> pytest.MarkDecorator:
    """Inputs that must meet a demand; those known not to do so must be taken off the list once they do."""
    chosen = [
        pytest.param(each, id=str(each), marks=KNOWN_FAULT if demand in each.faults else ())
        for each in INPUTS
        if condition(each)
    ]
    return pytest.mark.parametrize("asked", chosen)


def typed_in_capitals(asked: Input) -> bool:
    return asked.text.isupper() and sum(map(str.isupper, asked.text)) > 3


@pytest.fixture(scope="session")
def answers() -> Answers:
    """What the checkpoint makes of every input, as the service and the command line would."""
    translator = Translator.load(EMBEDDED, device="cpu")
    found: Answers = {}
    for pair in dict.fromkeys(each.pair for each in INPUTS):
        found |= translations(translator, pair, [each for each in INPUTS if each.pair == pair])
    return found


def translations(translator: Translator, pair: Pair, inputs: list[Input]) -> Answers:
    source, target = pair
    results = translator.translate([each.text for each in inputs], source=source, target=target)
    return dict(zip(inputs, results, strict=True))


@where(lambda asked: True)
def test_nothing_looks_broken(asked: Input, answers: Answers) -> None:
    answer = answers[asked]
    assert answer.text.strip()
    assert not set("⁇\ufffd") & set(answer.text)
    kinds = {
        diagnose(sentence.sentence.cleaned, sentence.request.source_ids, sentence.best, sentence.text)
        for sentence in answer.sentences
    }
    assert kinds <= {None, "copy"} if asked.same else kinds == {None}


@where(lambda asked: True)
def test_it_is_about_as_long(asked: Input, answers: Answers) -> None:
    given, answered = extent(asked.text), extent(answers[asked].text)
    assert answered <= FACTOR * given + OFFSET
    assert given <= FACTOR * answered + OFFSET


@where(lambda asked: True)
def test_lines_stay_lines(asked: Input, answers: Answers) -> None:
    assert answers[asked].text.count("\n") == asked.text.count("\n")


@where(lambda asked: not asked.same)
def test_it_is_translated(asked: Input, answers: Answers) -> None:
    assert core(answers[asked].text) != core(asked.text)


@where(lambda asked: not asked.same, "script")
def test_it_is_in_the_script_of_its_language(asked: Input, answers: Answers) -> None:
    letters = [letter for letter in without_kept(answers[asked].text, asked) if letter.isalpha()]
    if asked.pair[1] == "zh":
        assert sum(map(is_han, letters)) >= 0.8 * len(letters) > 0
    else:
        assert [letter for letter in letters if not unicodedata.name(letter).startswith("LATIN")] == []


@where(lambda asked: asked.accept, "right")
def test_the_easiest_are_right(asked: Input, answers: Answers) -> None:
    assert core(answers[asked].text) in asked.accept


@where(lambda asked: asked.keeps or ADDRESS.search(asked.text), "kept")
def test_names_addresses_and_telephone_numbers_are_kept(asked: Input, answers: Answers) -> None:
    assert [kept for kept in kept_parts(asked) if kept not in answers[asked].text] == []


@where(lambda asked: any(map(str.isdigit, asked.text)), "figures")
def test_every_figure_is_kept(asked: Input, answers: Answers) -> None:
    assert figures(answers[asked].text) == figures(asked.text)


@where(lambda asked: asked.text.endswith(QUESTION_MARKS))
def test_a_question_stays_one(asked: Input, answers: Answers) -> None:
    assert answers[asked].text.endswith(QUESTION_MARKS)


@where(lambda asked: typed_in_capitals(asked) and asked.pair[1] != "zh")
def test_capitals_are_answered_in_capitals(asked: Input, answers: Answers) -> None:
    letters = [letter for letter in answers[asked].text if letter.isalpha()]
    assert sum(map(str.isupper, letters)) >= 0.8 * len(letters)


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
