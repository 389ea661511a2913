"""Terms in sentences, and how their translations may be spelt."""

from collections.abc import Mapping

import pytest

from model.errors import InputError
from model.text.glossary import Glossary, Term, read_entries
from model.text.source_sentence import SourceSentence
from model.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("entries", "sentence", "read"),
    [
        ({"cat": "chat"}, "The cat sleeps, cat.", "The chat sleeps, chat."),
        ({"cat": "chat"}, "Cats concatenate a cat_1.", "Cats concatenate a cat_1."),
        ({"cat": "chat"}, "Cat food (cat).", "Chat food (chat)."),
        ({"cat": "chat", "cat food": "croquettes"}, "Buy cat food for a cat.", "Buy croquettes for a chat."),
        ({"Apple": "Apple"}, "An apple from Apple.", "An apple from Apple."),
        ({"Reading": "Lesen"}, "“reading is Reading.", "“Lesen is Lesen."),
        ({"C++": "C++", "C": "Do"}, "Write C++ in C!", "Write C++ in Do!"),
        ({"a b": "x", "b": "y"}, "a b b", "x y"),
        ({"锅炉": "boiler"}, "这个锅炉坏了。", "这个boiler坏了。"),
        ({" cat ": " chat ", "dog": " ", "": "rien"}, "A cat, a dog.", "A chat, a dog."),
        ({}, "A cat.", "A cat."),
    ],
)
def test_terms_are_whole_words_and_the_longest_wins(
    entries: Mapping[str, str], sentence: str, read: str
) -> None:
    assert Glossary(entries).apply(sentence)[0] == read


def test_terms_are_told_as_often_as_a_sentence_has_them() -> None:
    glossary = Glossary({"cat": "chat", "dog": "chien", "bird": "oiseau"})
    dog, cat, glued = Term("dog", "chien"), Term("cat", "chat"), Term("dog", "chien", is_glued=True)
    _, terms = glossary.apply("The dog and the cat and the cat's (dog).")
    assert terms == (dog, cat, cat, glued)


def test_a_second_translation_keeps_the_translations_of_the_first() -> None:
    assert Glossary({"cat": "chat"}).of_targets().entries == {"chat": "chat"}


@pytest.mark.parametrize("translation", ["Le chat.", "CHAT", "Un Chat noir"])
def test_casing_does_not_count_when_a_term_is_looked_for(translation: str) -> None:
    assert Term("cat", "chat").count_in(translation) == 1
    assert Term("cat", "chat roux").count_in(translation) == 0


def test_spaces_behind_marks_do_not_count_when_a_term_is_looked_for() -> None:
    assert Term("cat", "chat/ félin").count_in("Le chat/félin.") == 1


def test_a_translation_may_begin_a_word_with_or_without_a_capital_or_stand_behind_an_apostrophe(
    any_tokenizer: Tokenizer,
) -> None:
    term, settings = Term("station", "gare"), any_tokenizer.settings
    texts = {any_tokenizer.decode(ids).strip() for ids in term.spellings(any_tokenizer)}
    assert {"gare"} <= {text.lower() for text in texts} <= {"gare", "'gare"}
    assert settings.lowercase or {text[-4:] for text in texts} >= {"gare"}
    assert {"gare"} >= {
        any_tokenizer.decode(ids).strip().lower().strip("'")
        for ids in Term("station", "gare", is_glued=True).spellings(any_tokenizer)
    }


def test_what_a_vocabulary_cannot_spell_has_no_spelling(word_tokenizer: Tokenizer) -> None:
    assert Term("station", "zzz").spellings(word_tokenizer) == ()
    assert Term("station", "gare").spellings(word_tokenizer) != ()


def test_a_sentence_is_read_with_the_translations_of_its_terms(tokenizer: Tokenizer) -> None:
    def read(text: str, **options: object) -> SourceSentence:
        return SourceSentence.read(text, ("en", "fr"), tokenizer, **options)  # type: ignore[arg-type]

    glossary = Glossary({"station": "gare", "iPod": "iPod"})
    sentence = read("Where is the station?", glossary=glossary)
    assert (sentence.ids, sentence.text) == (read("Where is the gare?").ids, "Where is the station?")
    assert sentence.terms == (Term("station", "gare"),)
    capitals = read("WHERE IS THE STATION?", glossary=glossary)
    assert (capitals.ids, capitals.casing) == (read("Where is the gare?").ids, "capitals")
    assert read("STATION", glossary=glossary).terms == (Term("station", "gare"),)
    assert read("Station", glossary=glossary).casing == "unchanged"
    assert read("Good morning.", glossary=glossary).terms == ()
    numbered = Glossary({"station": "gare 217"})
    (placeholder,) = read("Is {x} a station?", glossary=numbered).kept
    assert placeholder.number not in ("", "217")
    kept = read("Is {station} a station?", keep=["iPod"], glossary=glossary)
    assert [string.text for string in kept.kept] == ["{station}"]
    assert kept.terms == (Term("station", "gare"),)


def test_entries_are_read_from_a_table() -> None:
    assert read_entries("cat\t chat\n\n dog \tchien\tnoun\n", "f") == {"cat": "chat", "dog": "chien"}
    assert read_entries('"cat, small",chaton,en\n', "f", is_csv=True) == {"cat, small": "chaton"}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("\n", "from 1 to 10000 entries, but has 0"),
        ("a\tb\n" * 10_001, "from 1 to 10000 entries, but has 10001"),
        ("a\tb\n\nc\n", "two columns.* line 3 has one"),
        ("a\tb\nc\t \n", "entry 2 must have from 1 to 200 characters, but has 0"),
        (f"a\t{'b' * 201}", "entry 1 must have from 1 to 200 characters, but has 201"),
        ("a\tb\n a\tc", "the term of entry 2 has another translation already"),
    ],
)
def test_entries_that_cannot_be_a_glossary_are_refused(table: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"^`f`.*{problem}") as caught:
        read_entries(table, "f")
    assert caught.value.field == "f"
