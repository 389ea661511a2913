"""Made-up names, figures, addresses and codes, which a translation copies."""

import string
from collections.abc import Callable
from random import Random
from typing import NamedTuple

MakeEntity = Callable[[Random], str]

_PARTICLES = ("Mc", "O'", "Mac", "D'")
_DOMAIN_ENDS = ("com", "org", "net", "fr", "de", "es", "cn", "io", "co.uk", "eu", "info")
_FILE_ENDS = ("pdf", "txt", "jpg", "png", "docx", "xlsx", "csv", "zip", "mp3", "html", "py", "json")
_WORDS = (
    "account api blog data demo docs file help home img index info list mail news page photo report shop test"
)
_EMOJI = "😀 😂 😊 😍 😉 😎 😢 😭 😡 👍 👎 🙏 👏 💪 🎉 ❤️ 🔥 ✨ 🎂 🌍 ☀️ ⭐ 🚀 🐱 🐶 🍕 ☕ 🏠 📷 ✅ ❌"


class _Syllables(NamedTuple):
    """First, middle and last syllables of a region's names."""

    first: tuple[str, ...]
    middle: tuple[str, ...]
    last: tuple[str, ...]


_STYLES = tuple(
    _Syllables(*(tuple(part.split()) for part in style))
    for style in (
        ("Al Bel Cor Del Fa Gio Lu Ma Mon Ri Sal Ver", "a be li ma ni re ta vi", "la lli na no retti zio ña"),
        (
            "Bau Du É Fran Gué Hél Jean Lé Mar Pel",
            "be la mi né re ri tha",
            "ard aux eau ine elle ier oît çon",
        ),
        (
            "Alt Eich Fried Grün Hart Kö Lind Mül",
            "be der el gen he ler",
            "berg er ig mann rich stein wald öß",
        ),
        (
            "Ash Brad Clay Den Ken Lan Mil Nor Wex",
            "bur der en ing ley wor",
            "ford ham ley son ston wick worth",
        ),
        (
            "Bog Dra Ja Ko Lju Mi Sta Vla Zo Łu Šte",
            "bo di ha le mi ro sla",
            "dan ić ka mir nko ova ski slav šek",
        ),
        ("As Bjø Ei Fre Gud Hal Ing Kri Sig Åse", "ga le mun ri ste", "borg dis gen nar rid sen son vik ør"),
        ("Aki Chi Ha Ka Mi Na Sa Ta Yo Yu Shi", "da ka ki ma mo ra shi", "da ko mi moto ro sawa ta yama"),
        ("Chen Fang Guo Hui Jin Lin Mei Qing Xiao", "li xia yu", "fei hong long ming ping yu"),
        ("Ab Fa Ha Ib Kha Ma Na Ra Sa Ya Za", "bi da la li ma ri", "d din dullah fa ir id moud na ra"),
        ("Chi Ke Mu Nde Nga O Oku Ta Tho Wan", "bo di ka ki ma nye", "bi jide kwe le mba ndi nga sanya"),
        ("A Di Ka Ma Pri Ra San Su Va Vi", "de ja ni ri sha ta va", "an deep esh ita jay kumar ni preet"),
    )
)


def name(generator: Random) -> str:
    """A name like those of one region; sometimes hyphenated, with a particle, or two names."""
    style = generator.choice(_STYLES)
    chance = generator.random()
    one = _single_name(style, generator)
    if chance < 0.08:
        return f"{one}-{_single_name(style, generator)}"
    if chance < 0.12:
        return generator.choice(_PARTICLES) + one
    return f"{one} {_single_name(style, generator)}" if chance < 0.3 else one


def number(generator: Random) -> str:
    """A number of one to twelve digits; long ones sometimes in groups, others with decimals."""
    length = generator.choice((1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 12))
    digits = _digits(length, generator)
    chance = generator.random()
    if length > 3 and chance < 0.5:
        return f"{int(digits):,}".replace(",", generator.choice((",", ".", " ")))
    if length < 9 and chance > 0.8:
        return f"{digits}{generator.choice('.,')}{_digits(generator.randint(1, 3), generator)}"
    return digits


def time(generator: Random) -> str:
    """A time of day."""
    hour, minute = generator.randrange(24), generator.randrange(60)
    return f"{hour}:{minute:02}" if generator.random() < 0.7 else f"{hour:02}:{minute:02}:{minute // 2:02}"


def date(generator: Random) -> str:
    """A date in figures."""
    year, month, day = generator.randint(1900, 2099), generator.randint(1, 12), generator.randint(1, 28)
    form = generator.choice(
        ("{0}-{1:02}-{2:02}", "{2:02}/{1:02}/{0}", "{1}/{2}/{0}", "{2:02}.{1:02}.{0}", "{0}")
    )
    return form.format(year, month, day)


def price(generator: Random) -> str:
    """An amount of money, or a share."""
    cents = generator.choice(("", ".{:02}", ",{:02}")).format(generator.randrange(100))
    form = generator.choice(("${}", "£{}", "¥{}", "{} €", "{}€", "{}$", "{} USD", "{} %", "{}%"))
    return form.format(f"{generator.randrange(1000)}{cents}")


def telephone(generator: Random) -> str:
    """A telephone number."""
    separator = generator.choice((" ", "-", ".", " "))
    groups = [_digits(generator.choice((2, 2, 3, 4)), generator) for _ in range(generator.randint(3, 5))]
    country = generator.choice(("", "", f"+{generator.randint(1, 99)} ", "0", "00"))
    return country + separator.join(groups)


def email(generator: Random) -> str:
    """An e-mail address."""
    joint = generator.choice(("", ".", "_", "-"))
    return f"{_word(generator)}{joint}{_word(generator)}@{_domain(generator)}"


def url(generator: Random) -> str:
    """An address on the web."""
    start = generator.choice(("https://", "https://", "http://", "www.", "https://www.", ""))
    path = "".join(f"/{_word(generator)}" for _ in range(generator.randrange(3)))
    query = f"?{_word(generator)}={_digits(2, generator)}" if path and generator.random() < 0.2 else ""
    return f"{start}{_domain(generator)}{path}{query}"


def file_name(generator: Random) -> str:
    """Returns a made-up name of a file, sometimes with its folder."""
    folder = generator.choice(("", "", "/", "./", "~/", "C:\\", f"/{_word(generator)}/"))
    joint = generator.choice(("_", "-", ""))
    return f"{folder}{_word(generator)}{joint}{_word(generator)}.{generator.choice(_FILE_ENDS)}"


def identifier(generator: Random) -> str:
    """An identifier of a program."""
    first, second = _word(generator), _word(generator)
    forms = (
        f"{first}_{second}",
        f"{first}{second.title()}",
        f"{first}.{second}()",
        f"--{first}",
        f"`{first}`",
    )
    return generator.choice((*forms, f"{first}_{second}".upper()))


def handle(generator: Random) -> str:
    """A user name of a social network."""
    return f"@{_word(generator)}{generator.choice(('', '_', _digits(2, generator)))}{_word(generator)}"


def tag(generator: Random) -> str:
    """A hashtag."""
    return generator.choice(
        (f"#{_word(generator)}", f"#{_word(generator).title()}{_word(generator).title()}")
    )


def code(generator: Random) -> str:
    """A code of a product, flight, ticket or version."""
    letters = "".join(generator.choices(string.ascii_uppercase, k=generator.randint(1, 3)))
    digits = _digits(generator.randint(1, 5), generator)
    version = f"v{generator.randrange(10)}.{generator.randrange(20)}.{generator.randrange(10)}"
    return generator.choice(
        (f"{letters}-{digits}", f"{letters}{digits}", f"#{digits}", version, f"{letters} {digits}")
    )


def emoji(generator: Random) -> str:
    """One emoji, up to three times."""
    return generator.choice(_EMOJI.split()) * generator.choice((1, 1, 1, 2, 3))


FIGURES: tuple[MakeEntity, ...] = (number, number, number, time, date, price, telephone, code)
"""Replacements for a number."""

THINGS: tuple[MakeEntity, ...] = (url, email, file_name, identifier, handle, code, telephone, tag)
"""Replacements for a name, apart from other names."""

ANYTHING: tuple[MakeEntity, ...] = tuple(dict.fromkeys((*THINGS, *FIGURES, name, emoji)))
"""Entities alone, before or after a sentence."""


def _single_name(style: _Syllables, generator: Random) -> str:
    middle = generator.choices(style.middle, k=generator.choice((0, 0, 1, 1, 2)))
    return generator.choice(style.first) + "".join(middle) + generator.choice(style.last)


def _word(generator: Random) -> str:
    """A word of an address: a common one, or random syllables."""
    if generator.random() < 0.4:
        return generator.choice(_WORDS.split())
    syllables = (
        generator.choice("bcdfghjklmnprstvwz")
        + generator.choice("aeiou")
        + generator.choice(("", "", "n", "r", "s"))
        for _ in range(generator.randint(1, 4))
    )
    return "".join(syllables)


def _domain(generator: Random) -> str:
    return (
        f"{_word(generator)}{generator.choice(('', '-' + _word(generator)))}.{generator.choice(_DOMAIN_ENDS)}"
    )


def _digits(length: int, generator: Random) -> str:
    """A number of `length` digits, the first of them not 0."""
    return str(generator.randint(10 ** (length - 1), 10**length - 1))
