from itertools import compress
from typing import get_args

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from model.text import document as module
from model.text.document import Document, Splitting, sentence_ends
from tests.model.text.processor_time import at_most

LANGUAGES = ["en", "fr", "de", "es", "cs", "zh", "ja", "zh-Hans", "qqq", ""]
WORDS = ["Hello", "Mr. Smith", "M. ", "你好", "3.14", "x.org/?Q=1!", "🙂", "\ud800", "\u0301", "\x00"]
MARKS = [". ", ".", "! ", "?", "…", "。", "！", "」", "「", '"']
SPACES = ["\n", "\r\n", "\t", " ", "\u3000", "\u2028", "\ufeff"]
LINE_BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x85", "\u2028", "\u2029"]
pieces = st.sampled_from(WORDS + MARKS + SPACES)
any_text = st.text(st.characters()) | st.lists(pieces, max_size=60).map("".join)


@given(any_text, st.sampled_from(LANGUAGES), st.sampled_from(get_args(Splitting)))
def test_its_own_sentences_give_the_text_back(text: str, language: str, splitting: Splitting) -> None:
    document = Document.split(text, language, splitting)
    assert len(document.gaps) == len(document.sentences) + 1
    assert document.rebuild(document.sentences) == text
    assert document.rebuild(document.sentences, target_language=language) == text


@given(any_text, st.sampled_from(LANGUAGES))
def test_sentences_are_trimmed_single_lines_with_letters(text: str, language: str) -> None:
    for sentence in Document.split(text, language).sentences:
        assert sentence == sentence.strip()
        assert len(sentence.splitlines()) == 1
        assert any(map(str.isalpha, sentence))


@settings(max_examples=8)
@given(st.lists(pieces, min_size=200, max_size=400).map(lambda parts: "".join(parts) * 5))
def test_long_texts_survive_too(text: str) -> None:
    document = Document.split(text, "fr")
    assert document.rebuild(document.sentences) == text


def test_gap_sentence_gap() -> None:
    document = Document.split("\ufeff  Hello there.  Name\tAge\t5\r\n\n\tFine. \n", "en")
    assert document.sentences == ("Hello there.", "Name", "Age", "Fine.")
    assert document.gaps == ("\ufeff  ", "  ", "\t", "\t5\r\n\n\t", " \n")
    assert document.rebuild(["A", "B", "C", "D"]) == "\ufeff  A  B\tC\t5\r\n\n\tD \n"


@pytest.mark.parametrize(
    "text",
    ["", "\n\r\n", "\u3000", "\ufeff\x00\u200b", "---", "1.5 % …", "🙂🙂", "。", "ℹ️", "1️⃣", "\u20665\u2066 6"],
)
def test_what_has_no_letter_has_no_sentence(text: str) -> None:
    document = Document.split(text, "en")
    assert document.sentences == ()
    assert document.rebuild([]) == document.rebuild([], target_language="fr") == text


def test_enumerations_and_rules_stay_out_of_sentences() -> None:
    document = Document.split("1. First\n2. Second\n-----\nThird 🙂", "en")
    assert document.sentences == ("First", "Second", "Third")
    assert document.gaps == ("1. ", "\n2. ", "\n-----\n", " 🙂")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I love pizza 🍕", "I love pizza"),
        ("🎉🎉 Happy birthday! 🎉", "Happy birthday!"),
        ("Je t'aime ❤️", "Je t'aime"),
        ("👨\u200d👩\u200d👧 Hi 👍🏽 🇫🇷", "Hi"),
        ("- milk", "milk"),
        ("\u2067Hello.\u2069 ", "Hello."),
        ("\u200e\u2068{name}\u2069 is here ", "\u2068{name}\u2069 is here"),
        (" Price: \u2066$5\u2069\u200f", "Price: \u2066$5\u2069"),
        ("  • - 🥚 eggs", "eggs"),
        ("## Heading", "Heading"),
        ("— Bonjour", "Bonjour"),
        ("-ish", "-ish"),
        ("- [ ] Buy milk", "Buy milk"),
        ("[x] done", "done"),
        ("  a. Open it", "Open it"),
        ("b) Close it", "Close it"),
        ("i. e. this", "i. e. this"),
        ("z. B. das", "z. B. das"),
        ("v. Chr.", "v. Chr."),
        ("p. 5 says", "p. 5 says"),
        ("A. Smith", "A. Smith"),
        ("I 🍕 you.", "I 🍕 you."),
        ("Is it 20°", "Is it 20°"),
        ("ℹ️ Please wait.", "Please wait."),
        ("Watch out ‼️", "Watch out"),
        ("©️ My company™", "My company"),
        ("1️⃣ Open the door 2️⃣", "Open the door"),
        ("#⃣ One *️⃣", "One"),
        ("20 km", "20 km"),
        ("C#", "C#"),
        ("...and then he left...", "and then he left..."),
        ("- …so he left.", "so he left."),
        ("../a, and .NET", "../a, and .NET"),
        ("[Music playing] 🎵", "Music playing"),
        ("([ laughs ])", "laughs"),
        ("(a) and (b)", "(a) and (b)"),
        ("(b)", "(b)"),
        ("([iv])", "[iv]"),
        ("[USA]", "[USA]"),
        ("[Click](here)", "[Click](here)"),
        ("(He left.) Yes", "(He left.) Yes"),
    ],
)
def test_emoji_and_bullets_at_the_edges_stay_out_of_sentences(text: str, sentence: str) -> None:
    document = Document.split(text, "en")
    assert document.sentences == (sentence,)
    assert document.rebuild(document.sentences) == text


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_a_line_break_ends_a_sentence_unless_sentences_go_across_lines(line_break: str) -> None:
    assert Document.split(f"Mr.{line_break}Smith", "en").sentences == ("Mr.", "Smith")
    text = f"\n Where is{line_break}the station? I{line_break * 2}am lost.{line_break}1.\n"
    document = Document.split(text, "en", "across_lines")
    assert document.sentences == (f"Where is{line_break}the station?", f"I{line_break * 2}am lost.")
    assert document.gaps == ("\n ", " ", f"{line_break}1.\n")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("\ufeff One.  Two!\r\nThree 🙂 \n", ("One.  Two!\r\nThree",)),
        ("好的。很好！", ("好的。很好！",)),
        (" 42.\n🙂 ", ()),
        ("", ()),
    ],
)
def test_a_text_may_be_one_sentence(text: str, sentences: tuple[str, ...]) -> None:
    document = Document.split(text, "zh", "none")
    assert document.sentences == sentences
    assert document.rebuild(document.sentences) == text


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("zh", "en", "One. Two! Three."),
        ("zh_CN", "en-GB", "One. Two! Three."),
        ("ja", "fr", "One. Two! Three."),
        ("zh", "ja", "One.Two! Three."),
        ("zh", None, "One.Two! Three."),
    ],
)
def test_languages_with_spaces_get_them(source: str, target: str | None, expected: str) -> None:
    document = Document.split("好的。很好！ 再见。", source)
    assert document.rebuild(["One.", "Two!", "Three."], target_language=target) == expected


@pytest.mark.parametrize("brackets", ["()", "（）"])
def test_spaces_are_outside_of_brackets(brackets: str) -> None:
    document = Document.split("好的。笑".replace("笑", "笑".join(brackets)), "zh")
    assert document.rebuild(["Good.", "laughs"], target_language="en") == "Good. (laughs)"
    assert document.rebuild(["いい。", "笑"], target_language="ja") == "いい。" + "笑".join(brackets)


def test_what_stays_a_sentence_of_the_text_gets_spaces_around_it() -> None:
    document = Document.split("Ναι。你好。Ελληνικά κείμενο。再见。Όχι。", "zh")
    some = document.keeping([False, True, False, True, False])
    assert (
        some.rebuild(["Hello.", "Bye."], target_language="en") == "Ναι。 Hello. Ελληνικά κείμενο。 Bye. Όχι。"
    )
    assert (
        some.rebuild(["你好。", "再见。"], target_language="ja") == "Ναι。你好。Ελληνικά κείμενο。再见。Όχι。"
    )


@pytest.mark.parametrize("count", [1, 3])
def test_translations_must_be_as_many_as_sentences(count: int) -> None:
    document = Document.split("One. Two.", "en")
    with pytest.raises(ValueError, match="zip"):
        document.rebuild(["x"] * count)


HOSTILE = (
    *("a. ", ".", "\u0301\u0316", "A.", "«é. ", "“a。", "(", "«", "「", "a\n", "\n", " ", "a", "x/?", "🙂. "),
    *("🙂", "- ", "-", "- 🙂", "\ud800. ", "你好。", "1️⃣", "1️⃣ a", "ℹ"),
)


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize(
    ("language", "splitting"),
    [("fr", "sentences"), ("zh", "across_lines"), ("zh", "paragraphs"), ("zh", "none")],
)
def test_hostile_text_takes_linear_time(unit: str, language: str, splitting: Splitting) -> None:
    with at_most(seconds=1):  # far less than quadratic time would be
        Document.split(unit * (50_000 // len(unit)), language, splitting)


@given(text=st.text("ab. \n!你", max_size=40), data=st.data())
def test_sentences_can_become_gaps(text: str, data: st.DataObject) -> None:
    document = Document.split(text, "en")
    count = len(document.sentences)
    kept = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    some = document.keeping(kept)
    assert some.sentences == tuple(compress(document.sentences, kept))
    assert len(some.gaps) == len(some.sentences) + 1
    assert some.rebuild(some.sentences) == text


@given(st.text(st.sampled_from("aZ1#*-. !\u20e3\ufe0f🙂\u00a0\x7fℹ你é") | st.characters(), max_size=12))
def test_a_span_with_plain_ends_is_not_trimmed(text: str) -> None:
    start = module._length(module._LEADING, text)
    end = len(text) - module._length(module._TRAILING, text[start:][::-1])
    expected = (start, end) if any(map(str.isalpha, text[start:end])) else None
    assert module._trimmed(text, 0, len(text)) == expected


def test_paragraphs_end_at_blank_lines() -> None:
    text = "Dear Tom\n\nI have received\r\nyour letter. It\nwas long.\r\n \t\r\nYours"
    document = Document.split(text, "en", "paragraphs")
    assert document.sentences == ("Dear Tom", "I have received\r\nyour letter.", "It\nwas long.", "Yours")
    assert document.rebuild(document.sentences) == text
    assert (
        Document.split(text, "en", "across_lines").sentences[0]
        == "Dear Tom\n\nI have received\r\nyour letter."
    )


def split(text: str, language: str) -> list[str]:
    ends = sentence_ends(text, language)
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Mr. Smith paid $3.50 at 5 p.m. on Monday. ", "Really? ", "(Yes.)"]),
        ("en", ["hello. ", "how are you? ", "fine"]),
        ("en", ['He said: "Stop!" and left. ', "We saw README.Md and x.org/?Q=1 there. ", "Wait!", "Stop!"]),
        ("en", ["It is approx. 5 km, see Eq. 4 and vol. 3. ", "I have a tel. ", "Call."]),
        ("fr", ["Le 5 janv. 2025, réf. 12. ", "Fin."]),
        ("fr", ["Le Dr. Martin et le Prof. Durand sont là. ", "Il y a max. 5 pains, art. L. 3."]),
        ("fr", ["Voici Max. ", "C'est de l'art. ", "Il dure 5 min. ", "À demain."]),
        ("en", ["We know P(A | B) well."]),
        ("en", ['Print `"Hello, world!"`. ', 'Then print `"Bye!"`']),
        ("en", ["Let $a_1. B$ be 5. ", "Run C:\\Dr. No\\a.exe now. ", "It cost $5. ", "And $6."]),
        ("zh", ["(a. ", "B) $(cat a. Echo b) 12"]),
        ("en", ["Home ", "| About us ", "| Run `cat a | grep b` now ", "• a|b"]),
        ("en", ["| Name ", "| Age ", "|"]),
        ("en", ["It works.", "It really does. ", "See readme.Txt or use foo.Bar()."]),
        ("fr", ["J'ai vu M. Dupont, M.\xa0Durand et Mlle. Petit. ", "Ça va ? ", "J.-C. est né."]),
        ("fr", ["« Très bien ! » dit-elle. ", "Fin."]),
        ("fr", ["Tous, c.-à-d. nous. ", "Oui."]),
        ("es", ["Los JJ.OO. de 1992. ", "Los JJ.OO. ", "Bien."]),
        ("de", ["Am 20. Dezember beginnt das 6. Treffen. ", "Dr. Weiß kommt z.B. auch. ", "Gut."]),
        ("cs", ["Přišla 5. května s A. Novákem. ", "Konec."]),
        ("es", ["¿Qué tal? ", "¡Hola, Sr. Ruiz! ", "Adiós."]),
        ("zh", ["你好。", "增长了2.5％、３.２％！", "他说：“我很好。”", "Hello. ", "再见"]),
        ("ja", ["こんにちは。", "「元気ですか？」と聞いた。", "はい！"]),
        ("hi", ["नमस्ते। ", "ठीक।"]),
        ("qqq", ["One. ", "Two."]),
        ("", ["One. ", "Two."]),
        ("en", ["no end"]),
        ("en", ["\ud800 One. ", "\udfff Two."]),
    ],
)
def test_sentences_end_where_readers_think_they_do(language: str, sentences: list[str]) -> None:
    assert split("".join(sentences), language) == sentences


def test_a_long_line_is_split_as_its_parts_are() -> None:
    sentences = [f"Mr. Smith has {n} cats in the house, and café number {n}.5 is open. " for n in range(200)]
    assert split("".join(sentences), "en") == sentences


def test_a_sentence_longer_than_a_window_stays_whole() -> None:
    long = "word " * 1000 + "end. "
    assert split(f"Short. {long}Short.", "en") == ["Short. ", long, "Short."]


def test_a_splitter_that_alters_its_text_alters_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencex, "segment", lambda _language, _text: ["One.", "not there", "Two."])
    assert split("One.  Two.  three", "en") == ["One.", "  Two.", "  three"]
