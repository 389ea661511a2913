"""Strings that a translation must repeat come back exactly once, whatever the network makes of them."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.text import kept_strings
from model.text.kept_strings import with_kept_strings, with_numbers
from model.text.normalisation import clean
from model.text.tags import kept_tag
from tests.model.text.processor_time import at_most

# Between ⟦ and ⟧ stands what is kept.
MARKED = (
    "Hello ⟦{name}⟧, ⟦{0}⟧ of ⟦{{ user.total }}⟧ or ⟦${TOTAL}⟧.",
    "⟦%s⟧ and ⟦%1$s⟧, ⟦%d⟧ or ⟦%(count)d⟧, ⟦100%⟧ sure",
    "⟦{hours}h⟧ ⟦{n}min⟧, ⟦{x}km/h⟧, ⟦{item}s⟧, ⟦%ds⟧ or ⟦%(n)dMB⟧, but ⟦{name}⟧'s ⟦{who}⟧are ⟦%s⟧now",
    "⟦{n, plural, one {# file} other {# files}}⟧ left",
    "Click ⟦<b>⟧here⟦</b><br/>⟧ ⟦&amp;⟧ wait, 3 < 5 > 2",
    "Run ⟦`make serve`⟧ now ⟦👍🏽⟧!",
    "Run ⟦<code>make all</code>⟧ or ⟦<b>⟧press⟦</b>⟧ ⟦<kbd>F</kbd>⟧",
    "If ⟦$x^2 + y_1$⟧ and ⟦$n$⟧, then ⟦$$a = b$$⟧.",
    "It is ⟦$20⟧ ⟦{name}⟧ and ⟦5$⟧, or $$ and more $$.",
    "Pay ⟦$5⟧ or ⟦$6⟧ (or ⟦C$ 7⟧) + ⟦$8⟧, and A$ = B$.",
    "Write to ⟦max@example.org⟧, please.",
    "Ask ⟦o'brien@example.ie⟧, not d'⟦alice@example.org⟧",
    "See ⟦<https://example.org/>⟧ now",
    "(see ⟦https://example.org/a_b?c=d&e#f⟧).",
    "请访问⟦https://www.example.cn/help⟧，谢谢",
    "写信给⟦a@b.com⟧谢谢",
    "ดูที่⟦www.example.com/a⟧นะ แล้ว ⟦A4⟧",
    "⟦ftp://10.0.0.1:21/x⟧",
    "IBAN ⟦DE89 3704 0044 0532 0130 00⟧, ⟦ISBN 978-3-16-148410-0⟧",
    "Call ⟦+33 6 12 34 56 78⟧ on ⟦24.12.2024⟧",
    "⟦3.5 kg⟧, ⟦16 GB⟧, ⟦-40 °C⟧ at ⟦100 km/h⟧ for ⟦$9.99⟧",
    "Ask ⟦@jane.doe⟧ about ⟦#travel2024⟧, not (⟦@max⟧)",
    "看看⟦#旅行⟧。问@张伟和⟦@max⟧吧",
    "See ⟦src/main.rs⟧, ⟦~/.bashrc⟧, ⟦/etc/hosts⟧ and ⟦C:\\Program Files\\a.exe⟧.",
    "⟦v2.3.1⟧, ⟦1.0.0-rc.1⟧ or ⟦192.168.0.1:80⟧",
    "It is ⟦€1.5bn⟧, ⟦USD 20⟧ or ⟦1.000,00 €⟧",
    "⟦1,234,567⟧ of 12'000 at 7:45 pm on ⟦2024-12-31⟧",
    "⟦A4⟧, ⟦COVID-19⟧, ⟦4K⟧, ⟦2x⟧, ⟦H₂O⟧, ⟦#ff8800⟧",
    "⟦{n, plural, one {{a} has # file} other {{a} has # files}}⟧",
    "pre⟦%s⟧fix, ⟦5%⟧ of it, ⟦<%= x %>⟧ or ⟦[[y]]⟧",
    "Call ⟦foo.bar()⟧ with ⟦--name=x⟧ or ⟦std::string⟧ in ⟦C++⟧",
    "⟦12,50\u202f€⟧ for ⟦1\u00a0234\u00a0567⟧",
    "a@b, user@host, 3.5 @ 4, www, www..., 5 million, in 1999, the 2nd, 1990s, 3e, 14:30, 20,000",
    "Press ⟦Ctrl+C⟧, see ⟦\uf0fc⟧, ⟦x^2⟧ = ⟦mc^{2}⟧ at ⟦16:9⟧ ⟦##NAME##⟧ ⟦;-)⟧",
    "Pay ⟦$5⟧ and then ⟦x_1⟧ $ (see above:a) at 16:09, a: (b)",
    "It is ⟦$5⟧ = five ⟦dollars_and⟧ cents$ here, ⟦$x = 5 \\text{ if you like}$⟧",
    "⟦Shift+Tab⟧, ⟦a+b⟧, but Bed+Breakfast and rock+roll",
    "It⟦\U000fc001⟧ is ⟦Fe\U000fc003O\U000fc005⟧",
    "He or she and/or I: yes -- no... (well) 20-year-old",
    "Plus de 12 000 soldats sont morts, 10\u00a0000 en 2010, 85\u202f000 blessés",
    "Il y a 20 050 livres et 30 010 élèves.",
    "⟦20 000 m²⟧, ⟦1\u202f335,5 kg⟧, ⟦80 000 Kč⟧, ⟦$ 12 000⟧ or ⟦€ 12\u00a0000,50⟧; call ⟦0800⟧ or ⟦007⟧",
    "5 t-shirts, 3 A-levels, 2 L-shaped sofas, 2 L sofas, a 5 km-long 5 %-Klausel",
    "No. 5 J. Smith, No. 5 V. Smith, No. 5 A. Smith, 3/4 tsp, 5 K runs, Chapter 5 A new hope",
    "En 2010 l'entreprise, en 2011 l’école, le 5 m'a dit, à 8h30, at 11.30a.m.",
    "He came.in fact he did, +0,5 point, I <3 you and >me",
    "known as the `Wiesn,' also `Italian Weekend' (`Fest')",
    "un arresto --que el cuerpo niega-- y --así lo creo -- otro",
    "⟦5 m⟧, ⟦3 g⟧, ⟦2 l⟧, ⟦2 L⟧, ⟦5 A⟧, ⟦3 t⟧, ⟦230 V⟧",
    "⟦3/4 l⟧, ⟦210/220 cm⟧, a ⟦1.2L⟧ engine, ⟦60 W⟧ bulbs, ⟦5 A⟧.",
    "⟦diepresse.com⟧, ⟦spiegel.de⟧ and ⟦news.orf.at⟧ say",
    "Use ⟦--dry-run⟧ or ⟦--name=x⟧, ⟦`Foo`⟧s, (⟦`x`⟧)",
    "At ⟦48°51′24″N⟧ ⟦2° 21' E⟧, ⟦5°⟧ east, see ⟦§3.1⟧, :b. 请⟦:name⟧，⟦:no⟧。来源:Getty",
    "Pay ⟦£5–£10⟧, ⟦5-10 €⟧ or ⟦￥99.00⟧; ⟦6'2\"⟧ tall, ⟦x^2^⟧ in l'an 5'2, ⟦e^x^y⟧",
    "Hello ⟦:name⟧, (⟦:count⟧) of ⟦pa$$w0rd⟧ or ⟦Micro$oft⟧; he said:yes, a :b and :no:more",
    "Call ⟦foo(bar, a.b, 3)⟧, ⟦x.print('a b')⟧ or ⟦log(\"x\")⟧, a word(note), film(s), UK(in May, 3)",
    "The ⟦MP40⟧ guns in room ⟦AB12⟧ will open soon",
    "⟦{name}⟧ is ⟦2.17 m⟧ tall",
    "Put ⟦file_name.txt⟧ and ⟦README.md⟧ into ⟦$HOME⟧ ⟦:smile:⟧",
    "It ends here.This is md, and ⟦10:30:15⟧: late",
    "⟦🏴\U000e0067\U000e0062\U000e007f⟧ or ⟦1\ufe0f\u20e3⟧",
)


def check(marked: str, keep: Sequence[str] = (), language: str = "") -> None:
    text = re.sub("[⟦⟧]", "", marked)
    read, kept = with_numbers(text, keep, language=language)
    assert [string.text for string in kept] == re.findall("⟦(.*?)⟧", marked)
    assert with_kept_strings(read, kept) == text


@pytest.mark.parametrize("marked", MARKED)
def test_strings_to_keep_are_found_and_put_back(marked: str) -> None:
    check(marked)


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Click <b>here</b> now.", "Cliquez 217 ici 348 tout de suite.", "Cliquez <b>ici</b> tout de suite."),
        ("{a} of {b} files", "348 Dateien, davon 217", "{b} Dateien, davon {a}"),
        ("Hello {name}!", "Bonjour !", "Bonjour {name} !"),
        ("{name}, come here.", "Komm her.", "{name} Komm her."),
        ("Hello {name}!", "Bonjour 217 217 !", "Bonjour {name} !"),
        ("217 or {x}", "217 oder 348", "217 oder {x}"),
        ("Hello {name}!", "Bonjour217 !", "Bonjour {name} !"),
        ("See https://a.b/c now.", "现在看217吧。", "现在看https://a.b/c 吧。"),
        ("`a b` is {x}", "un 217", "un `a b` {x}"),
        ("{x} is `a b`", "348 un", "{x} `a b` un"),
        ("第5个{x}吧", "第5 5个", "第5 5 {x}个"),
    ],
)
def test_each_string_comes_back_once(source: str, translation: str, expected: str) -> None:
    _, kept = with_numbers(source)
    assert with_kept_strings(translation, kept) == expected


@pytest.mark.parametrize("text", ["H@O", "m@", "10@", "CO@"])
def test_a_formula_with_a_lowered_number_is_one_string(text: str) -> None:
    text = text.replace("@", kept_tag(1))
    assert [each.text for each in with_numbers(f"It is {text} here.")[1]] == [text]
    (number,) = with_numbers(f"The cat{kept_tag(1)} sleeps.")[1]
    assert number.text == kept_tag(1)


def test_an_element_that_is_not_translated_is_kept() -> None:
    read, kept = with_numbers(f"Run {kept_tag(1)} or word{kept_tag(2)}.")
    assert read == "Run 217 or word 348."
    assert with_kept_strings("Lancez word 348 ou 217.", kept) == f"Lancez word{kept_tag(2)} ou {kept_tag(1)}."


@pytest.mark.parametrize(
    ("keep", "marked"),
    [
        (["Dragoman", "Dragoman II"], "⟦Dragoman⟧ and ⟦DRAGOMAN II⟧, not Dragomans"),
        (["张伟"], "我喜欢⟦张伟⟧和北京"),
        (["Apple", "STATION"], "An apple by ⟦Apple⟧, and a station at ⟦STATION⟧"),
        (["project x"], "⟦Project x⟧, ⟦PROJECT X⟧, ⟦project x⟧"),
        ([" ", "cats"], "I love ⟦cats⟧"),
    ],
)
def test_strings_that_a_caller_names_are_kept(keep: list[str], marked: str) -> None:
    check(marked, keep)


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        ("en", "The Hebrew word ⟦שלום⟧ means peace."),
        ("en", "Say ⟦как дела, пожалуйста⟧! (⟦Москва⟧)"),
        ("de", "Das „⟦猫⟧“ heißt ⟦ねこ⟧、⟦いぬ⟧ und ⟦नमस्ते⟧; ⟦β⟧-Test."),
        ("en", "Write to ⟦иван@почта.рф⟧ or ⟦https://пример.рф/путь⟧"),
        ("zh", "他说 ⟦привет⟧。Tom ⟦の⟧ 家"),
        ("ja", "駅はどこ⟦안녕⟧ OK"),
        ("pt", "Olá ʻokina Oʼahu ﬁne 𝐛𝐨𝐥𝐝 Ｆull ə ٣ «。»"),
        ("en", "Привет, как дела?"),
        ("xx", "Привет OK, שלום"),
    ],
)
def test_words_in_other_scripts_are_kept(language: str, marked: str) -> None:
    check(marked, language=language)


def test_strings_of_a_caller_that_are_new_each_time_cost_little() -> None:
    with at_most(seconds=0.5):  # one pattern with all others took 0.3 s to compile
        for number in range(20):
            with_numbers("Ask Ann 5.", [f"Ann{number}"])


@given(text=st.text(st.sampled_from("ab {}%$<>/`&;:@.,-+0123456789kg€#\U0001f600é你")), lost=st.booleans())
def test_any_text_is_read_and_put_back(text: str, lost: bool) -> None:
    text = clean(text)
    read, kept = with_numbers(text, language="en")
    if lost:
        translation = with_kept_strings("un deux", kept)
        assert all(translation.count(string.text) >= 1 for string in kept if string.number)
    else:
        assert with_kept_strings(read, kept).replace(" ", "") == text.replace(" ", "")


def test_a_text_may_hold_every_number_and_many_placeholders() -> None:
    text = ", ".join(map(str, range(217, 900))) + " {x}" * 100
    read, kept = with_numbers(text)
    assert len({string.number for string in kept if string.number}) == 100
    assert with_kept_strings(read, kept) == text


PARTS = [*"a 1.:/wW@{}`€🙂_$-(),'\u20e3٣é", "www.", "://", "%d", "<b>", "&amp;", ".md", kept_tag(1)]


@given(text=st.lists(st.sampled_from(PARTS) | st.characters()).map("".join))
def test_the_quick_look_misses_no_string_to_keep(text: str) -> None:
    assert kept_strings._may_hold_strings(text) or kept_strings._KEPT.search(text) is None


@pytest.mark.parametrize("unit", ["f(", "(a", "f(a,", 'f("', "a$", "a^", ":a", "$1-", "1°", "<http://", "[a"])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    with at_most(seconds=4):  # quadratic time would be 20 seconds
        kept_strings.kept_spans(unit * (100_000 // len(unit)))
