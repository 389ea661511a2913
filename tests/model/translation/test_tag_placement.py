"""Tags that are set in the translation of the sentence that they stood in."""

import re
from difflib import SequenceMatcher
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text.tags import ANY_TAG, closing_tag, note_tag, opening_tag, point_tag, without_tags
from model.translation.tag_placement import Side, _longest_sum, _matching_positions, set_tags

SIGNS = {opening_tag(n): f"<{n}>" for n in range(9)} | {closing_tag(n): f"</{n}>" for n in range(9)}
SIGNS |= {point_tag(n): f"<{n}/>" for n in range(9)} | {note_tag(n): f"<{n}^>" for n in range(9)}
TAGS = {sign: tag for tag, sign in SIGNS.items()}
WORDS = ["ab", "c", "dé", "我", "是", ",", "."]
TAG = st.sampled_from([tag for tag, sign in SIGNS.items() if re.search("[0-3]", sign)])
MARKED = st.lists(st.one_of(st.sampled_from([*WORDS, " ", " "]), TAG), max_size=14).map("".join)


@given(st.text("ab ", max_size=6), st.text("ab ", max_size=3), st.text("ab ", max_size=3))
def test_a_text_within_its_tokens_needs_no_matching(text: str, before: str, behind: str) -> None:
    read = before + text + behind
    matched = SequenceMatcher(None, read, text, autojunk=False).get_matching_blocks()
    expected = {start + i: first + i for start, first, size in matched for i in range(size)}
    places = _matching_positions(read, text)
    assert [places[position] for position in expected] == list(expected.values())
    assert (len(places), places[-1], places) == (len(read) + 1, len(text), sorted(places))


def tagged(text: str) -> str:
    return re.sub("</?[0-9][/^]?>", lambda sign: TAGS[sign[0]], text)


def shown(text: str) -> str:
    return ANY_TAG.sub(lambda tag: SIGNS[tag[0]], text)


def pieces(text: str) -> list[str]:
    return ["<2fr>", *re.findall(r" ?\w+| ?[^\w\s]| ", text.replace("\u2581", "_")), "</s>"]


def set_by_links(source: str, target: str, links: str) -> str:
    """Sets tags where word i of the translation is aligned with word `links[i]` of the source."""
    text, tags = without_tags(tagged(source))
    words = [" " + word for word in re.findall(r"\w+|[^\w\s]", text)]
    translated = [" " + word for word in re.findall(r"\w+|[^\w\s]", target)]
    rows = [[float(place == int(link)) for place in range(len(words))] for link in links.split()]
    assert len(rows) == len(translated)
    return shown(set_tags(tags, Side(text, words), Side(target, translated), rows))


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("I <1>love</1> you.", "Je t aime.", "0 2 1 3", "Je t <1>aime</1>."),
        ("the <1>red</1> <2>car</2>", "la voiture rouge", "0 2 1", "la <2>voiture</2> <1>rouge</1>"),
        ("the <1>red <2>car</2></1>", "la voiture rouge", "0 2 1", "la <1><2>voiture</2> rouge</1>"),
        ("<1>not</1> good", "ne va pas bien", "0 1 0 1", "<1>ne</1> va pas bien"),
        ("a <1/>b c", "C B A", "2 1 0", "C <1/>B A"),
        ("a <1/><2>b</2> c", "C B A", "2 1 0", "C <1/><2>B</2> A"),
        ("a <2>b</2> <1/>", "B A", "1 0", "<2>B</2> A<1/>"),
        ("a <1><2></2></1>b", "B A", "1 0", "<1><2></2></1>B A"),
        ("one</1> two <2>three", "trois deux un", "2 1 0", "trois</1> deux <2>un"),
        ("one</1> two <2>three", "un deux trois", "0 1 2", "un</1> deux <2>trois"),
        (
            "one <1>two <2>three</1> four</2>",
            "un deux trois quatre",
            "0 1 2 3",
            "un <1>deux <2>trois</1> quatre</2>",
        ),
        ("<1>one two</1>", "zwei eins noch", "1 0 0", "<1>zwei eins noch</1>"),
        ("in<1>cred</1>ible news", "des nouvelles incroyables", "1 1 0", "des nouvelles <1>incroyables</1>"),
        ("please <1>do not</1> open", "Por favor, no abre", "0 0 1 2 3", "Por favor, <1>no</1> abre"),
        ("<1>a, b</1> c", "A, B C", "0 1 2 3", "<1>A, B</1> C"),
        ("<1>a</1> b", "", "", "<1></1>"),
        ("a <1>b</1>", "A", "0", "<1>A</1>"),
        ("a b<1^> c", "C B A", "2 1 0", "C B<1^> A"),
        ("a <1>b c</1><2^> d", "C B A D", "2 1 0 3", "<1>C B</1><2^> A D"),
        ("<1>a b<2^></1> c", "C B A", "2 1 0", "C <1>B<2^> A</1>"),
        ("a, <1/>b<2^><3^> c", "C B A", "3 2 0", "C <1/>B<2^><3^> A"),
    ],
)
def test_tags_follow_the_words(source: str, target: str, links: str, expected: str) -> None:
    assert set_by_links(source, target, links) == expected


def test_a_word_that_all_words_attend_to_draws_no_tag_to_them() -> None:
    text, tags = without_tags(tagged("the red <1>car</1>"))
    words, translated = [" the", " red", " car"], [" la", " voiture", " rouge"]
    rows = [[0.3, 0.1, 0.6], [0.0, 0.1, 0.9], [0.1, 0.4, 0.5]]
    result = set_tags(tags, Side(text, words), Side("la voiture rouge", translated), rows)
    assert shown(result) == "la <1>voiture</1> rouge"


@given(source=MARKED, target=MARKED, data=st.data())
def test_every_tag_comes_back_once_and_no_word_changes(source: str, target: str, data: st.DataObject) -> None:
    text, tags = without_tags(source)
    target, _ = without_tags(target)
    sides = Side(text, pieces(text)), Side(target, pieces(target)[1:-1])
    weights = st.lists(
        st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=len(sides[0].pieces), max_size=len(sides[0].pieces)
    )
    rows = data.draw(st.lists(weights, min_size=len(sides[1].pieces), max_size=len(sides[1].pieces)))
    result = set_tags(tags, *sides, rows)
    words, found = without_tags(result)
    assert words == target
    assert sorted(tag.mark for tag in found) == sorted(tag.mark for tag in tags)
    assert result == set_tags(tags, *sides, rows)
    if is_nested(source):
        assert is_nested(result)


def is_nested(text: str) -> bool:
    """Whether the elements are pairs, one within the other or apart."""
    opened: list[int] = []
    _, tags = without_tags(text)
    for tag in tags:
        if tag.is_opening:
            opened.append(tag.number)
        elif tag.is_closing and (not opened or opened.pop() != tag.number):
            return False
    return not opened


@given(st.lists(st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5]), min_size=1, max_size=7), st.booleans())
def test_the_best_span_is_that_of_an_exhaustive_search(scores: list[float], is_pinned: bool) -> None:
    spans = [(b, e) for b, e in combinations(range(len(scores) + 1), 2) if b == 0 or not is_pinned]
    total, (begin, end) = _longest_sum(scores, is_pinned=is_pinned)
    assert total == max(sum(scores[b:e]) for b, e in spans) == sum(scores[begin:end])
    assert (begin, end) in spans


def test_many_tags_are_set_in_proportion() -> None:
    text, tags = without_tags(tagged("<1>one</1> two " * 200))
    words = text.split()
    source, target = (
        Side(text, [f" {word}" for word in words]),
        Side("un deux trois", [" un", " deux", " trois"]),
    )
    result = set_tags(tags, source, target, [[1.0] * len(words)] * 3)
    assert ANY_TAG.sub("", result) == target.text
    assert [tag.mark for tag in without_tags(result)[1]] == [tag.mark for tag in tags]


def test_a_kept_string_is_one_word() -> None:
    text, tags = without_tags(tagged("Ask <1>me@x.org</1> or <2>$5.99</2>, not <3>$5.99</3>."))
    kept = [("me@x.org", "217"), ("$5.99", "348"), ("$5.99", "479")]
    source = Side(text, [" ask", " 2", "17", " or", " 348", ",", " not", " 479", "."], kept)
    target = "Nicht $5.99,sondern $5.99 oder me@x.org."
    pieces = [" nicht", " 348", ",", "sondern", " 479", " oder", " 217", "."]
    links = [6, 4, 5, 6, 7, 3, 2, 8]  # for each target token, the source token that it translates
    rows = [[float(place == link) for place in range(len(source.pieces))] for link in links]
    result = set_tags(tags, source, Side(target, pieces, kept), rows)
    assert shown(result) == "Nicht <2>$5.99</2>,sondern <3>$5.99</3> oder <1>me@x.org</1>."


def test_tags_stay_in_a_text_that_does_not_change() -> None:
    text, tags = without_tags(tagged("{n, other {<1>5</1>|} left}"))
    sides = Side(text, [text]), Side(text, [text])
    assert shown(set_tags(tags, *sides, [[1.0]])) == "{n, other {<1>5</1>|} left}"


def test_tags_are_set_where_the_alignment_is_unknown() -> None:
    text, tags = without_tags(tagged("one <1>two</1>"))
    result = set_tags(tags, Side(text, [" one", " two"]), Side("un deux", [" un", " deux"]), ())
    assert shown(result) == "un <1>deux</1>"
    text, tags = without_tags(tagged("one<1^> <2>two</2><3^>"))
    result = set_tags(tags, Side(text, [" one", " two"]), Side("un deux", [" un", " deux"]), ())
    assert shown(result) == "un<1^> <2>deux</2><3^>"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("HELLO YOU", [" hello", " you"]),
        ("a\u00a0{name} b", [" a", " 217", " b"]),
        ("x…y", [" x", "...", "y"]),
    ],
)
def test_words_are_found_where_the_network_read_otherwise(text: str, read: list[str]) -> None:
    last = re.split(r"[\s…]", text)[-1]
    source = text.removesuffix(last) + opening_tag(1) + last + closing_tag(1)
    rows = [[float(place == target) for place in range(len(read))] for target in (len(read) - 1, 0)]
    result = set_tags(without_tags(source)[1], Side(text, read), Side("zwei eins", [" zwei", " eins"]), rows)
    assert shown(result) == "<1>zwei</1> eins"
