"""① Languages: their codes, also in the forms of other projects, their names, their capitals and scripts.

`fra_Latn`, `fr_XX`, `>>fra<<` and `<2fr>` all mean `fr`. Scripts tell text of another language.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

SHORT_CODES: dict[str, str] = dict(re.findall(r"(\w+):(\w+)", """
    aar:aa abk:ab afr:af aka:ak amh:am ara:ar arb:ar arg:an asm:as ava:av ave:ae aym:ay ayr:ay aze:az azj:az
    bak:ba bam:bm bel:be ben:bn bis:bi bod:bo tib:bo bos:bs bre:br bul:bg cat:ca ces:cs cze:cs cha:ch che:ce
    chu:cu chv:cv cor:kw cos:co cre:cr cym:cy wel:cy dan:da deu:de ger:de div:dv dzo:dz ell:el gre:el eng:en
    epo:eo est:et ekk:et eus:eu baq:eu ewe:ee fao:fo fas:fa pes:fa per:fa fij:fj fin:fi fra:fr fre:fr fry:fy
    ful:ff fuv:ff gla:gd gle:ga glg:gl glv:gv grn:gn guj:gu hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hmo:ho
    hrv:hr hun:hu hye:hy arm:hy ibo:ig ido:io iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik isl:is ice:is ita:it
    jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka geo:ka kau:kr knc:kr kaz:kk khm:km kik:ki kin:rw kir:ky kom:kv
    kon:kg kor:ko kua:kj kur:ku kmr:ku lao:lo lat:la lav:lv lvs:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg
    mah:mh mal:ml mar:mr mkd:mk mac:mk mlg:mg plt:mg mlt:mt mon:mn khk:mn mri:mi mao:mi msa:ms zsm:ms may:ms
    mya:my bur:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne npi:ne nld:nl dut:nl nno:nn nob:nb nor:no nya:ny
    oci:oc oji:oj ori:or ory:or orm:om gaz:om oss:os pan:pa pli:pi pol:pl por:pt pus:ps pbt:ps que:qu quy:qu
    roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd
    som:so sot:st spa:es sqi:sq alb:sq als:sq srd:sc srp:sr ssw:ss sun:su swa:sw swh:sw swe:sv tah:ty tam:ta
    tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur
    uzb:uz uzn:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi ydd:yi yor:yo zha:za zho:zh chi:zh cmn:zh
    zul:zu ji:yi iw:he jw:jv in:id mo:ro ns:nso
"""))  # fmt: skip
"""Two-letter codes by other codes: those of three letters, of a group's main language, and former ones."""

LANGUAGE_NAMES = {
    "ace": "Acehnese", "acm": "Mesopotamian Arabic", "acq": "Ta'izzi-Adeni Arabic", "aeb": "Tunisian Arabic",
    "af": "Afrikaans", "ajp": "South Levantine Arabic", "ak": "Akan", "am": "Amharic",
    "apc": "North Levantine Arabic", "ar": "Arabic", "ars": "Najdi Arabic", "ary": "Moroccan Arabic",
    "arz": "Egyptian Arabic", "as": "Assamese", "ast": "Asturian", "awa": "Awadhi", "ay": "Aymara",
    "az": "Azerbaijani", "azb": "South Azerbaijani", "ba": "Bashkir", "ban": "Balinese", "be": "Belarusian",
    "bem": "Bemba", "bg": "Bulgarian", "bho": "Bhojpuri", "bjn": "Banjar", "bm": "Bambara", "bn": "Bengali",
    "bo": "Tibetan", "br": "Breton", "bs": "Bosnian", "bug": "Buginese", "ca": "Catalan", "ceb": "Cebuano",
    "cjk": "Chokwe", "ckb": "Central Kurdish", "co": "Corsican", "crh": "Crimean Tatar", "cs": "Czech",
    "cv": "Chuvash", "cy": "Welsh", "da": "Danish", "de": "German", "dik": "Southwestern Dinka",
    "dyu": "Dyula", "dz": "Dzongkha", "ee": "Ewe", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "ff": "Fulah", "fi": "Finnish",
    "fil": "Filipino", "fj": "Fijian", "fo": "Faroese", "fon": "Fon", "fr": "French", "fur": "Friulian",
    "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician", "gn": "Guarani",
    "gu": "Gujarati", "gv": "Manx", "ha": "Hausa", "haw": "Hawaiian", "he": "Hebrew", "hi": "Hindi",
    "hne": "Chhattisgarhi", "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian",
    "ia": "Interlingua", "id": "Indonesian", "ig": "Igbo", "ilo": "Ilocano", "io": "Ido", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kab": "Kabyle", "kac": "Kachin",
    "kam": "Kamba", "kbp": "Kabiyè", "kea": "Kabuverdianu", "kg": "Kongo", "ki": "Kikuyu", "kk": "Kazakh",
    "km": "Khmer", "kmb": "Kimbundu", "kn": "Kannada", "ko": "Korean", "kr": "Kanuri", "ks": "Kashmiri",
    "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish", "lg": "Ganda", "li": "Limburgish",
    "lij": "Ligurian", "lmo": "Lombard", "ln": "Lingala", "lo": "Lao", "lt": "Lithuanian",
    "ltg": "Latgalian", "lua": "Luba-Lulua", "luo": "Luo", "lus": "Mizo", "lv": "Latvian",
    "lzh": "Literary Chinese", "mag": "Magahi", "mai": "Maithili", "mg": "Malagasy", "mi": "Maori",
    "min": "Minangkabau", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mni": "Manipuri",
    "mos": "Mossi", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "my": "Burmese",
    "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian",
    "nso": "Northern Sotho", "nus": "Nuer", "ny": "Nyanja", "oc": "Occitan", "om": "Oromo", "or": "Odia",
    "os": "Ossetian", "pa": "Punjabi", "pag": "Pangasinan", "pap": "Papiamento", "pl": "Polish",
    "prs": "Dari", "ps": "Pashto", "pt": "Portuguese", "qu": "Quechua", "rm": "Romansh", "rn": "Rundi",
    "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda", "sa": "Sanskrit", "sat": "Santali",
    "sc": "Sardinian", "scn": "Sicilian", "sd": "Sindhi", "se": "Northern Sami", "sg": "Sango",
    "sh": "Serbo-Croatian", "shn": "Shan", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian",
    "sm": "Samoan", "sn": "Shona", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "ss": "Swati",
    "st": "Southern Sotho", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "szl": "Silesian",
    "ta": "Tamil", "taq": "Tamasheq", "te": "Telugu", "tg": "Tajik", "th": "Thai", "ti": "Tigrinya",
    "tk": "Turkmen", "tl": "Tagalog", "tn": "Tswana", "to": "Tongan", "tpi": "Tok Pisin", "tr": "Turkish",
    "ts": "Tsonga", "tt": "Tatar", "tum": "Tumbuka", "tw": "Twi", "ty": "Tahitian",
    "tzm": "Central Atlas Tamazight", "ug": "Uyghur", "uk": "Ukrainian", "umb": "Umbundu", "ur": "Urdu",
    "uz": "Uzbek", "ve": "Venda", "vec": "Venetian", "vi": "Vietnamese", "war": "Waray", "wo": "Wolof",
    "wuu": "Wu Chinese", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "yue": "Cantonese", "zh": "Chinese",
    "zu": "Zulu",
}  # fmt: skip
"""English names by canonical code."""

_SCRIPTS = {
    "Arab": "Arabic", "Beng": "Bengali", "Cyrl": "Cyrillic", "Deva": "Devanagari", "Grek": "Greek",
    "Hant": "traditional", "Hebr": "Hebrew", "Latn": "Latin", "Mtei": "Meitei", "Tfng": "Tifinagh",
}  # fmt: skip

_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MARK = re.compile(r">>([^<>]+)<<|<2([^<>]+)>|__(\w+)__")
# `XX` is mBART's region for none; `zxx` is ISO's code for no language.
_NOTHING = ("XX", "zxx")
_SUBTAG_SEPARATOR = re.compile(r"[-_.@]")
_UNSPACED_SENTENCES = frozenset({"zh", "ja", "yue", "wuu", "lzh"})
_UNSPACED_WORDS = _UNSPACED_SENTENCES | {"th", "lo", "km", "my"}
_TRADITIONAL = dict.fromkeys(("zt", "zh-tw", "zh-hk", "zh-mo"), "zh-hant")
_DOTTED_AND_DOTLESS_I = frozenset({"tr", "az"})

_LETTERS_OF_SCRIPTS = {
    "Latin": "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
    "\uff21-\uff3a\uff41-\uff5a",
    "Greek": "\u0370-\u03ff\u1f00-\u1fff",
    "Cyrillic": "\u0400-\u052f",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f\u08a0-\u08ff\ufb50-\ufdff\ufe70-\ufeff",
    "Devanagari": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
    "Kana": "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d",
    "Han": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "Hangul": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
}
_LANGUAGES_OF_SCRIPTS = {
    "Latin": "af az bs ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv ms mt nb nl nn "
    "no pl pt ro sk sl sq sr sv sw tl tr uz vi",
    "Greek": "el",
    "Cyrillic": "be bg kk ky mk mn ru sr tg uk",
    "Hebrew": "he yi",
    "Arabic": "ar fa ps ur",
    "Devanagari": "hi mr ne",
    "Thai": "th",
    "Kana": "ja",
    "Han": "ja ko zh",
    "Hangul": "ko",
}
_DENSE_SCRIPTS = ("Kana", "Han", "Hangul")
_DENSE_CHARACTER = re.compile("[" + "".join(_LETTERS_OF_SCRIPTS[script] for script in _DENSE_SCRIPTS) + "]")

UNSPACED_LETTERS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Ranges of the letters of scripts without spaces between words."""
UNSPACED_LETTER: Final = re.compile(f"[{UNSPACED_LETTERS}]")

# Scripts without spaces between words, with their punctuation: each character counts as a word.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u303f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff01-\uff65\U00020000-\U0003ffff]"
)


def canonical_code(code: str) -> str:
    """Returns the bare language code: `EN`, `en-GB` → `en`; `zh-Hans`, `cmn` → `zh`; `fra` → `fr`."""
    language = _SUBTAG_SEPARATOR.split(code.strip(), maxsplit=1)[0].lower()
    return SHORT_CODES.get(language, language)


def known_code(code: str, known: Iterable[str]) -> str | None:
    """Returns the known code that a user's code means: the same code in any spelling, else its bare language.

    If a language is known with one region or script only, as `pt-BR`, the bare code means that one.

    Args:
        code: A user's code: `EN`, `en_US`, `pt-br`.
        known: The known codes.

    Returns:
        One of `known`, or None.
    """
    codes = tuple(known)
    return code if code in codes else _known_code(code, codes)


@lru_cache(maxsize=1024)
def _known_code(code: str, codes: tuple[str, ...]) -> str | None:
    """Finds a code that is spelt otherwise; kept, as clients repeat theirs and 200 languages take a while."""
    spelt = {_folded(each): each for each in reversed(codes)}
    bare = canonical_code(code)
    found = spelt.get(_folded(code)) or spelt.get(bare)
    regions = [each for each in dict.fromkeys(codes) if canonical_code(each) == bare]
    is_bare = not _SUBTAG_SEPARATOR.search(code)
    return found or (regions[0] if is_bare and len(regions) == 1 else None)


def _folded(code: str) -> str:
    """Returns a code with its subtags in lower case, and the shortest code of the language."""
    language, *details = code.strip().lower().replace("_", "-").split("-")
    folded = "-".join([SHORT_CODES.get(language, language), *details])
    return _TRADITIONAL.get(folded, folded)


def has_unspaced_words(code: str) -> bool:
    """Returns whether a language writes words without spaces between them."""
    return canonical_code(code) in _UNSPACED_WORDS


def has_unspaced_sentences(code: str) -> bool:
    """Returns whether a language writes sentences without spaces between them."""
    return canonical_code(code) in _UNSPACED_SENTENCES


def gains_spaces(source: str, target: str) -> bool:
    """Returns whether the target language puts spaces between sentences, and the source language does not."""
    return has_unspaced_sentences(source) and not has_unspaced_sentences(target)


def language_name(code: str) -> str:
    """Returns the English name of a language, with its script if need be, or the code if it is unknown."""
    name = LANGUAGE_NAMES.get(canonical_code(code), code)
    script = next((_SCRIPTS[part] for part in code.split("-")[1:] if part in _SCRIPTS), None)
    return f"{name} ({script})" if script else name


def is_language_code(code: object) -> bool:
    """Returns whether a code has the form of `en`, `zh-Hans` or `pt-BR`."""
    return isinstance(code, str) and _CODE.fullmatch(code) is not None


def bare_tag(piece: str) -> str | None:
    """Returns the code within `>>fra<<`, `<2fr>` or `__fr__`; None if the piece is no language tag."""
    found = _MARK.fullmatch(piece)
    return next(filter(None, found.groups())) if found else None


def language_codes(names: Iterable[str]) -> dict[str, str]:
    """Returns our codes by names, all different; names that are no language, such as `ROMANCE`, are left out.

    Script and region are kept only where names differ in nothing else. Simplified Chinese is `zh`.
    """
    parts = {name: _parts(name) for name in names}
    sharing = Counter(SHORT_CODES.get(language, language) for language, _ in parts.values())
    codes: dict[str, str] = {}
    for name, (language, details) in sorted(parts.items(), key=lambda item: bool(item[1][1])):
        bare = SHORT_CODES.get(language, language)
        is_main = sharing[bare] == 1 or not details or details == ["Hans"]
        full = "-".join([bare, *details])
        options = (bare if is_main else full, full, language, "-".join([language, *details]))
        taken = codes.values()
        if code := next((each for each in options if is_language_code(each) and each not in taken), None):
            codes[name] = code
    return {name: codes[name] for name in parts if name in codes}


def language_code(name: str) -> str | None:
    """Returns our code of one name; None if it is no language."""
    return language_codes([name]).get(name)


def _parts(name: str) -> tuple[str, Sequence[str]]:
    """Returns the language, and script and region in their usual spelling."""
    language, *details = re.split("[-_]", bare_tag(name) or name)
    spelt = [each.upper() if len(each) == 2 else each.title() for each in details]
    if language in _NOTHING:
        return "", []
    return language, [each for each in spelt if each not in _NOTHING]


def upper(text: str, language: str) -> str:
    """Returns a text in capitals; in Turkish and Azerbaijani, `i` becomes `İ`."""
    return (text.replace("i", "İ") if canonical_code(language) in _DOTTED_AND_DOTLESS_I else text).upper()


def lower(text: str, language: str) -> str:
    """Returns a text in lower case; in Turkish and Azerbaijani, `I` becomes `ı`."""
    if canonical_code(language) in _DOTTED_AND_DOTLESS_I:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def in_script_of(text: str, language: str) -> bool:
    """Returns whether a text is in its language's script, with some foreign names and terms.

    At least half of the letters must be. A Han, kana or Hangul character says as much as half a word, so
    foreign words count there instead of their letters: 汤姆住在 New Haven is Chinese. Text without letters
    and languages without a known script always pass.
    """
    language = canonical_code(language)
    script = _script(language)
    if script is None or (text.isascii() and script.match("a")):
        return True
    rest, own = script.subn(" ", text)
    if _is_dense(language):
        foreign = sum(any(map(str.isalpha, word)) for word in rest.split())
        return foreign == 0 or 2 * own > foreign
    return own >= sum(map(str.isalpha, rest))


def count_words(text: str) -> int:
    """Counts the words between white space; each Han, kana or Hangul character counts as a word."""
    if text.isascii():
        return len(text.split())
    rest, characters = _DENSE_CHARACTER.subn(" ", text)
    return len(rest.split()) + characters


def letters_of_scripts(characters: Collection[str], *, at_least: int) -> re.Pattern[str]:
    """Returns a pattern for the letters of the scripts that have `at_least` of the characters."""
    ranges = [
        letters
        for letters in _LETTERS_OF_SCRIPTS.values()
        if sum(map(bool, map(re.compile(f"[{letters}]").match, characters))) >= at_least
    ]
    return re.compile(f"[{''.join(ranges)}]" if ranges else "(?!)")


@cache
def _script(language: str) -> re.Pattern[str] | None:
    """Returns a pattern for the letters of a language; None if its script is unknown."""
    ranges = [
        _LETTERS_OF_SCRIPTS[script]
        for script, codes in _LANGUAGES_OF_SCRIPTS.items()
        if language in codes.split()
    ]
    return re.compile("[" + "".join(ranges) + "]") if ranges else None


@cache
def _is_dense(language: str) -> bool:
    return any(language in _LANGUAGES_OF_SCRIPTS[script].split() for script in _DENSE_SCRIPTS)
