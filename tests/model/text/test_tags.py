"""Tags that are taken out of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.document import Document
from model.text.tags import closing_tag, kept_tag, note_tag, opening_tag, point_tag, with_tags, without_tags

MARKS = [kind(number) for kind in (opening_tag, closing_tag, point_tag, note_tag) for number in range(3)]
TEXTS = st.lists(st.sampled_from([*MARKS, "Yes. ", "No", " ", ".", "\n", "- ", "a", kept_tag(0)])).map(
    "".join
)


@given(TEXTS)
def test_tags_can_be_taken_out_and_put_back(text: str) -> None:
    without, tags = without_tags(text)
    assert with_tags(without, tags) == text
    assert not set(MARKS) & set(without)
    assert [tag.mark for tag in tags] == [each for each in text if each in MARKS]


def test_a_tag_knows_its_kind_and_number() -> None:
    _, tags = without_tags(opening_tag(3) + closing_tag(4) + point_tag(5) + kept_tag(6) + note_tag(7))
    assert [(tag.is_opening, tag.is_closing, tag.is_note, tag.number) for tag in tags] == [
        (True, False, False, 3), (False, True, False, 4), (False, False, False, 5), (False, False, True, 7),
    ]  # fmt: skip


@given(TEXTS)
def test_tags_do_not_change_where_sentences_end(text: str) -> None:
    without, tags = without_tags(text)
    document, plain = Document.split(text, "en"), Document.split(without, "en")
    assert tuple(without_tags(each)[0] for each in document.sentences) == plain.sentences
    assert tuple(without_tags(each)[0] for each in document.gaps) == plain.gaps
    rebuilt = document.rebuild(document.sentences)
    assert [tag.mark for tag in without_tags(rebuilt)[1]] == [tag.mark for tag in tags]


@pytest.mark.parametrize(
    ("text", "sentences", "gaps"),
    [
        ("<One.> <Two.>", ["One.", "Two."], ["<", "> <", ">"]),
        ("<One. Two.>", ["One.", "Two."], ["<", " ", ">"]),
        ("<One> two. Three <four.>", ["<One> two.", "Three <four.>"], ["", " ", ""]),
        ("One <two. Three> four.", ["One <two.", "Three> four."], ["", " ", ""]),
        ("One <two. >Three.", ["One <two.>", "Three."], ["", " ", ""]),
        ("< - One> two.", ["<One> two."], [" - ", ""]),
        ("<- 1>", [], ["<- 1>"]),
    ],
)
def test_a_tag_belongs_to_the_sentence_that_its_element_begins_or_ends_in(
    text: str, sentences: list[str], gaps: list[str]
) -> None:
    """Each `<` opens an element that the next `>` closes."""
    marked, number = "", 0
    for sign in text:
        marked += {"<": opening_tag(number), ">": closing_tag(number)}.get(sign, sign)
        number += sign == ">"
    document = Document.split(marked, "en")
    names = {
        ord(kind(each)): sign for sign, kind in (("<", opening_tag), (">", closing_tag)) for each in range(9)
    }
    assert [each.translate(names) for each in document.sentences] == sentences
    assert [each.translate(names) for each in document.gaps] == gaps
