"""③ ⑦ A sentence as the network reads it, and its translation with the sentence's casing and kept strings.

To a network, `HELLO` and `Hello` are unrelated pieces, and training text has few sentences in capitals. So
such a sentence is read in lower case, and its translation is written in capitals.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, Self

from model.text.glossary import Glossary, Term
from model.text.kept_strings import KeptString, with_kept_strings, with_numbers
from model.text.languages import (
    UNSPACED_LETTERS,
    canonical_code,
    has_unspaced_words,
    lower,
    upper,
)
from model.text.normalisation import clean, without_controls
from model.text.tags import Tag, without_tags
from model.text.tokenizer import Tokenizer

Casing = Literal["unchanged", "capitals", "capital_initial"]
"""The casing that was removed from the ids: none; capitals throughout; the first letter's capital."""

_NO_TERMS = Glossary({})
_WORD = re.compile(r"[^\W\d_]{2,}")
_SMALL_LETTER = re.compile("[a-z]")
_ALWAYS_SMALL = str.maketrans("", "", "ßºª")
_LONG_WORD = 4  # letters; shorter ones alone are as often abbreviations
_JOINED = re.compile(rf"(?<=[{UNSPACED_LETTERS}])(?=[A-Za-z])|(?<=[A-Za-z])(?=[{UNSPACED_LETTERS}])")
_CAPITALISED_NOUNS = frozenset({"de", "lb"})


class SourceSentence(NamedTuple):
    """A sentence of a source text, cleaned and tokenised once.

    Attributes:
        text: The sentence as it stands in the text, without tags.
        cleaned: The sentence after `clean`.
        ids: The token ids that the network reads.
        casing: How the casing of `ids` differs from that of the sentence.
        kept: Strings that its translation must repeat, and the numbers that `ids` have in their place.
        terms: Terms of a glossary, whose translations `ids` have in their place.
        tags: The tags that stood in it, which its translation gets too (`model.text.tags`).
    """

    text: str
    cleaned: str
    ids: tuple[int, ...]
    casing: Casing = "unchanged"
    kept: tuple[KeptString, ...] = ()
    terms: tuple[Term, ...] = ()
    tags: tuple[Tag, ...] = ()

    @classmethod
    def read(
        cls,
        text: str,
        pair: tuple[str, str],
        tokenizer: Tokenizer,
        keep: Sequence[str] = (),
        glossary: Glossary | None = None,
    ) -> Self:
        """Cleans and tokenises a sentence.

        A model of another project reads the sentence as it stands. Otherwise a lone word loses its first
        capital if the vocabulary has the word as one piece without the capital, but not with it. `Cancel` is
        then read as `cancel`. `Paris`, which is one piece as it stands, and `Bilbao`, which is one piece in
        neither form, stay.

        Args:
            text: The sentence as it stands in the text, with its tags.
            pair: Codes of its language and of the target language.
            tokenizer: The checkpoint's tokenizer.
            keep: Strings that are not translated, in addition to placeholders and the like.
            glossary: Terms with a given translation.
        """
        text, tags = without_tags(text)
        sentence = cls._without_tags(text, pair, tokenizer, keep, glossary or _NO_TERMS)
        return sentence._replace(tags=tags) if tags else sentence

    @classmethod
    def _without_tags(
        cls,
        text: str,
        pair: tuple[str, str],
        tokenizer: Tokenizer,
        keep: Sequence[str],
        glossary: Glossary,
    ) -> Self:
        source, target = pair
        encode = partial(tokenizer.encode, source_language=source, target_language=target)
        cleaned = clean(text)
        read, kept = _cleaned_with_numbers(text, cleaned, source, keep, glossary)
        if tokenizer.settings.is_imported:
            read, terms = glossary.apply(read)
            return cls(text, cleaned, tuple(encode(read if kept or terms else text)), kept=kept, terms=terms)
        if is_in_capitals(read):
            read, terms = glossary.apply(as_read(read, source), ignores_case=True)
            return cls(text, cleaned, tuple(encode(read)), "capitals", kept, terms)
        read, terms = glossary.apply(read)
        if has_unspaced_words(source) and not has_unspaced_words(target):
            read = _JOINED.sub(" ", read)  # a network joins a foreign word to another one otherwise
        ids = encode(read, is_clean=True)
        if is_capitalised_word(read) and not terms:
            small = encode(with_small_initial(read, source))
            if len(small) == len(encode("")) + 1 < len(ids):
                return cls(text, cleaned, tuple(small), "capital_initial", kept)
        return cls(text, cleaned, tuple(ids), kept=kept, terms=terms)

    @property
    def has_words(self) -> bool:
        """Returns whether it has a letter outside of kept strings."""
        kept = sum(map(str.isalpha, "".join(string.text for string in self.kept)))
        return not self.kept or sum(map(str.isalpha, self.cleaned)) > kept

    def restore_casing(self, translation: str, language: str) -> str:
        """Returns a translation, or the beginning of one, in the casing of the sentence.

        Args:
            translation: Text that was decoded for `ids`.
            language: Code of the target language.
        """
        if self.casing == "capitals":
            return upper(translation, language)
        if self.casing == "capital_initial":
            return with_capital_initial(translation, language)
        return translation

    def finish(self, translation: str, language: str) -> str:
        """Returns a whole translation in the casing of the sentence and with its kept strings, without tags.

        Args:
            translation: Text that was decoded for `ids`.
            language: Code of the target language.
        """
        return with_kept_strings(self.restore_casing(translation, language), self.kept)


def _cleaned_with_numbers(
    text: str, cleaned: str, language: str, keep: Sequence[str], glossary: Glossary
) -> tuple[str, tuple[KeptString, ...]]:
    """Returns a sentence after `clean` with numbers in place of its kept strings, and these strings.

    A kept string has the no-break spaces of the text, but no line breaks, tabs and surrogates.
    """
    spaced = without_controls(text)
    spaced = spaced if len(spaced) == len(cleaned) else cleaned
    matches = glossary.matches(spaced, ignores_case=is_in_capitals(spaced)) if glossary.entries else ()
    terms = [(start, end) for start, end, _ in matches]
    read, kept = with_numbers(spaced, keep, glossary.numbers, language, terms)
    return clean(read) if kept else cleaned, kept


def is_in_capitals(sentence: str) -> bool:
    """Returns whether a sentence is written in capitals.

    It has two words in capitals or one of four letters, and no letter that is lower case or caseless.
    """
    if _SMALL_LETTER.search(sentence) or any(
        letter.islower() or unicodedata.category(letter) == "Lo"
        for letter in sentence.translate(_ALWAYS_SMALL)
    ):
        return False
    words = [word for word in _WORD.findall(sentence) if word.lower() != word]
    return len(words) > 1 or any(len(word) >= _LONG_WORD for word in words)


def as_read(sentence: str, language: str) -> str:
    """Returns a sentence in capitals with at most its first letter as a capital.

    A lone word gets no capital, except in German, where it is a noun as often as not: in other languages a
    capital would make it a name.
    """
    if len(_WORD.findall(sentence)) == 1 and canonical_code(language) not in _CAPITALISED_NOUNS:
        return lower(sentence, language)
    first = next(place for place, letter in enumerate(sentence, start=1) if letter.lower() != letter)
    return sentence[:first] + lower(sentence[first:], language)


def is_capitalised_word(sentence: str) -> bool:
    """Returns whether a sentence is one word of which only the first letter is a capital."""
    return sentence.isalpha() and sentence[0].isupper() and sentence[1:].islower()


def with_small_initial(text: str, language: str) -> str:
    """Returns a text with its first letter in lower case."""
    return lower(text[:1], language) + text[1:]


def with_capital_initial(text: str, language: str) -> str:
    """Returns a text with its first letter as a capital."""
    return upper(text[:1], language) + text[1:]
