"""Short everyday sentences, nobody's in particular, for trying out whether a network translates at all."""

from collections.abc import Mapping
from typing import Final

from model.text.language_codes import canonical_code

PLAIN_SENTENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "de": ("Wo ist der Bahnhof?", "Ich habe Hunger.", "Das Buch liegt auf dem Tisch.", "Wie spät ist es?"),
    "en": ("Where is the station?", "I am hungry.", "The book is on the table.", "What time is it?"),
    "es": ("¿Dónde está la estación?", "Tengo hambre.", "El libro está sobre la mesa.", "¿Qué hora es?"),
    "fr": ("Où est la gare ?", "J'ai faim.", "Le livre est sur la table.", "Quelle heure est-il ?"),
    "it": ("Dov'è la stazione?", "Ho fame.", "Il libro è sul tavolo.", "Che ora è?"),
    "ja": ("駅はどこですか。", "お腹が空きました。", "本は机の上にあります。", "今何時ですか。"),
    "nl": ("Waar is het station?", "Ik heb honger.", "Het boek ligt op de tafel.", "Hoe laat is het?"),
    "pl": ("Gdzie jest dworzec?", "Jestem głodny.", "Książka leży na stole.", "Która jest godzina?"),
    "pt": ("Onde fica a estação?", "Estou com fome.", "O livro está na mesa.", "Que horas são?"),
    "ru": ("Где вокзал?", "Я голоден.", "Книга лежит на столе.", "Который час?"),
    "zh": ("车站在哪里？", "我饿了。", "书在桌子上。", "现在几点了？"),
}
"""By language code; in each language the same four."""


def plain_sentences(language: str) -> tuple[str, ...]:
    """Some of a language, `pt-BR` being `pt`; none where we have none."""
    return PLAIN_SENTENCES.get(canonical_code(language), ())
