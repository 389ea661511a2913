"""① Language codes of other projects in our form: `fra_Latn`, `fr_XX`, `>>fra<<` and `<2fr>` mean `fr`."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

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

_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MARK = re.compile(r">>([^<>]+)<<|<2([^<>]+)>|__(\w+)__")
# `XX` is mBART's region for none; `zxx` is ISO's code for no language.
_NOTHING = ("XX", "zxx")


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
