"""Hostile requests as bytes, by name, with the statuses of their answers."""

import gzip
import json
import random
import zlib
from collections.abc import Mapping

CANARY = "zanzibar"
"""In many of them; no answer that refuses holds it."""

Case = tuple[bytes, tuple[int, ...]]

_TYPE = {"Content-Type": "application/json"}
_GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
_POST = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_NINE_MB = 9_000_000
_KEYS = b"".join(b',"k%d":1' % number for number in range(90_000))


def post(body: bytes, headers: Mapping[str, object] = _TYPE) -> bytes:
    """A request that is the last of its connection."""
    framing = (
        {} if headers.keys() & {"Transfer-Encoding", "Content-Length"} else {"Content-Length": len(body)}
    )
    fields = {"Host": "x", "Connection": "close", **headers, **framing}
    lines = [f"{name}: {value}\r\n" for name, value in fields.items()]
    return "".join(["POST /translate HTTP/1.1\r\n", *lines, "\r\n"]).encode() + body


def get(target: bytes, method: bytes = b"GET") -> bytes:
    """A request without a body, the last of its connection."""
    return method + b" " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def ask(q: object = CANARY, **fields: object) -> bytes:
    """A request to translate."""
    return post(json.dumps({"q": q, "source": "en", "target": "fr"} | fields).encode())


def raw(value: str, field: str = "alternatives") -> bytes:
    """A request with a value as JSON spells it, or does not."""
    body = f'{{"source":"en","target":"fr","{field}":{value}'
    return post((body + (f',"q":"{CANARY}"}}' if field != "q" else "}")).encode())


def chunks(body: bytes, size: int) -> bytes:
    """A body in chunks."""
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


_TEXTS = {
    "empty": "",
    "white space": "  \n ",
    "ideographic space": "\u3000",
    "NUL": "a\0b hello",
    "C0 controls": "hello \x01\x02\x1b[31m you",
    "C1 controls": "hello \x85\x9b you",
    "byte order mark": "\ufeffHello you",
    "non-characters": "hello \ufffe\uffff\U0010ffff you",
    "joined emoji": "👩‍👩‍👧‍👦 family 🏳️‍🌈",
    "right to left": "שלום world مرحبا",
    "bidi overrides": "hello \u202eevil\u202c you \u2066x\u2069",
    "500 combining marks": "a" + "\u0301" * 500,
    "500 ligatures that grow": "\ufdfa" * 500,
    "special tokens": "<s> hello </s> you <unk> <pad>",
    "language tags": "▁hello <2de> >>de<< __de__ you",
    "markup": "<script>alert(1)</script> hello",
    "SQL": "'; DROP TABLE users; --",
    "templates": "{{7*7}} ${jndi:ldap://x/a} #{1+1} %s %n",
    "line breaks": "hello\r\nSet-Cookie: a=b\r\n\r\nyou",
}
TEXTS: dict[str, Case] = {name: (ask(text), (200,)) for name, text in _TEXTS.items()}

SIZES: dict[str, Case] = {
    "64,000 alternating marks": (ask("a" + "\u0315\u0300" * 32_000), (413,)),
    "100,000 words": (ask("w " * 100_000), (413,)),
    "a word of 1 MB": (ask("a" * 1_000_000), (413,)),
    "alternating marks within MAX_CHARS": (ask("a" + "\u0315\u0300" * 4_990), (200, 413)),
    "ligatures that grow within MAX_CHARS": (ask("\ufdfa" * 9_990), (200, 413)),
    "a word of MAX_CHARS": (ask("a" * 9_990, timeout_ms=1_000), (200, 504)),
    "a sentence of MAX_CHARS": (ask("word " * 1_990, timeout_ms=1_000), (200, 504)),
    "one item too many": (ask(["a"] * 257), (413,)),
    "100,000 items": (ask(["a"] * 100_000), (413,)),
    "a long item": (ask(["a", CANARY * 2_000]), (413,)),
    "9 MB, declared": (post(b'{"q":"' + b"a" * _NINE_MB), (413,)),
    "9 MB, in chunks": (
        post(chunks(b'{"q":"' + b"a" * _NINE_MB, 65_536), _TYPE | {"Transfer-Encoding": "chunked"}),
        (413,),
    ),
    "9 MB that never come": (post(b"", _TYPE | {"Content-Length": _NINE_MB}), (413,)),
    "more bytes than there are": (post(b"", _TYPE | {"Content-Length": 10**18}), (413,)),
    "a length of 30 digits": (post(b"", _TYPE | {"Content-Length": 10**29}), (400, 413)),
    "90,000 fields": (post(b'{"q":"a","target":"fr"%s}' % _KEYS), (422,)),
    "90,000 inner fields": (post(b'{"q":"a","target":"fr","decoding":{"seed":1%s}}' % _KEYS), (422,)),
    "300,000 objects": (post(b'{"q":[%s{}]}' % (b"{}," * 300_000)), (422,)),
    "500,000 numbers": (post(b'{"q":[%s1]}' % (b"1," * 500_000)), (422,)),
    "a form of escapes": (
        post(b"target=fr&q=" + b"%41" * 340_000, {"Content-Type": "application/x-www-form-urlencoded"}),
        (413,),
    ),
    "100,000 chunks of a byte": (
        post(chunks(b"a" * 100_000, 1), _TYPE | {"Transfer-Encoding": "chunked"}),
        (413,),
    ),
    "a head over 16 KiB": (_GET + b"A: " + b"a" * 17_000 + b"\r\n\r\n", (431,)),
    "an endless head": (_GET + b"A: " + b"a" * 5_000_000, (431,)),
    "over 100 fields": (_GET + b"A: a\r\n" * 101 + b"\r\n", (431,)),
    "a path of 64 kB": (get(b"/" + b"a" * 64_000), (414,)),
    "a query of 64 kB": (get(b"/livez?" + b"a" * 64_000), (414,)),
}

FIELDS: dict[str, Case] = {
    "lone surrogate": (raw('"\\ud800"', "q"), (422,)),
    "raw surrogate": (post(b'{"q":"\xed\xa0\x80","target":"fr"}'), (400,)),
    "invalid UTF-8": (post(b'{"q":"\xff\xc0","target":"fr"}'), (400,)),
    "UTF-16": (post('{"q":"a","target":"fr"}'.encode("utf-16")), (415,)),
    "UTF-16 without a mark": (post('{"q":"a","target":"fr"}'.encode("utf-16-be")), (415,)),
    "duplicate key": (raw('"a","q":"b"', "q"), (422,)),
    "a language of 10 kB": (ask(target="x" * 10_000), (422,)),
    "a path for a language": (ask(source="../../etc/passwd"), (400,)),
    "a path for a model": (ask(model="/etc/passwd"), (400,)),
    "an address for a model": (ask(model="https://x/model"), (400,)),
    "source = target": (ask(target="en"), (200,)),
    "EN": (ask(source="EN"), (200,)),
    "en-GB": (ask(source="en-GB"), (200,)),
    **{
        f"{field} {value[:12]}": (raw(value, field), (422,))
        for field in ("q", "alternatives", "timeout_ms")
        for value in ("null", '{"a":1}', "NaN", "-Infinity", "1e999", "9" * 5_000, "-" + "9" * 5_000)
        if (field, value) not in (("timeout_ms", "null"), ("alternatives", "null"))
    },
    **{
        f"{name} {value}": (ask(decoding={name: value}), (422,))
        for name, value in {
            "beam_size": 10**9,
            "length_penalty": -5,
            "max_length": 10**9,
            "min_length": -1,
            "top_k": 1.5,
            "temperature": 0,
            "seed": -1,
            "patience": 1e300,
        }.items()
    },
    "timeout -1": (ask(timeout_ms=-1), (422,)),
}


def _part(disposition: bytes, content: bytes) -> bytes:
    return b"--a\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + content + b"\r\n"


BODIES: dict[str, Case] = {
    **{
        f"encoding {name}": (post(body, _TYPE | {"Content-Encoding": name.split()[0]}), (415,))
        for name, body in {
            "gzip": gzip.compress(b'{"q":"a"}'),
            "gzip bomb": gzip.compress(b"a" * 50_000_000),
            "deflate": zlib.compress(b'{"q":"a"}'),
            "br": b"a",
            "zstd": b"a",
            "x-unknown": b"a",
        }.items()
    },
    **{
        f"JSON {name}": (post(body), (400, 422))
        for name, body in {
            "cut": b'{"q": "a",',
            "deep lists": b"[" * 100_000,
            "deep objects": b'{"a":' * 100_000,
            "a deep field": b'{"q":' + b"[" * 100_000 + b"]" * 100_000 + b',"target":"fr"}',
            "twice": b'{"q":"a","target":"fr"}' * 2,
            "garbage behind": b'{"q":"a","target":"fr"}xx',
            "empty": b"",
            "a number": b"1",
            "a word": CANARY.encode(),
            "a comment": b'{/*x*/"q":"a"}',
            "single quotes": b"{'q':'a'}",
            "a bare NUL": b'{"q":"a\0b","target":"fr"}',
            "a bare line break": b'{"q":"a\nb","target":"fr"}',
            "an unknown escape": b'{"q":"\\x41","target":"fr"}',
        }.items()
    },
    **{
        f"type {content_type}": (post(b'{"q":"a","target":"fr"}', {"Content-Type": content_type}), (415,))
        for content_type in (
            "text/plain",
            "application/xml",
            "application/json-patch+json",
            "application",
            ";;;=",
            "application/json; charset=latin-1",
        )
    },
    **{
        f"multipart {name}": (
            post(body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}),
            (400, 422),
        )
        for name, boundary, body in (
            ("JSON", "a", b'{"q":"a","target":"fr"}'),
            ("without boundary", "", b"--a--"),
            ("a line break in the boundary", '"a b"', b"--a b--"),
            ("without an end", "a", _part(b'name="q"', b"a")),
            ("without names", "a", _part(b"", b"a") + b"--a--\r\n"),
            ("not UTF-8", "a", _part(b'name="q"', b"\xff") + b"--a--\r\n"),
            ("many fields", "a", _part(b'name="x"', b"a") * 5_000 + b"--a--\r\n"),
            ("two files", "a", _part(b'name="q"; filename="x"', b"a") * 2 + b"--a--\r\n"),
            ("a file for a text", "a", _part(b'name="q"; filename="x"', b"a") + b"--a--\r\n"),
            ("an endless header", "a", b"--a\r\n" + b"A" * 500_000 + b"\r\n--a--\r\n"),
        )
    },
    "no type": (post(b'{"q":"a","target":"fr"}', {}), (415,)),
}

HEADS: dict[str, Case] = {
    **{
        name: (_POST + rest, (400,))
        for name, rest in {
            "two framings": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
            "two lengths": b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            "a length in words": b"Content-Length: five\r\n\r\n",
            "a negative length": b"Content-Length: -1\r\n\r\n",
            "almost chunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            "a bad chunk": b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
            "an endless chunk": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 18 + b"\r\n",
            "NUL in a field": b"A: a\0b\r\n\r\n",
            "LF in a field": b"A: a\nB: c\r\n\r\n",
        }.items()
    },
    **{
        f"host {host!r}": (
            b"GET /livez HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n",
            (200, 400),
        )
        for host in (b"evil.example:99999", b"a b c", b"user@host", b"", b"x/../livez", b"\xc3\xa9", b"[::1")
    },
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", (400,)),
    "absolute target": (get(b"http://evil.example/livez"), (404,)),
    "asterisk": (get(b"*", b"OPTIONS"), (404, 405)),
    **{
        f"path {path!r}": (get(path), (404,))
        for path in (
            *(b"//livez", b"/livez/", b"/livez%00", b"/%ff%fe", b"/livez;a=b", b"/%", b"/\\..\\x"),
            *(b"/%2e%2e/%2e%2e/etc/passwd", b"/web/..%2f..%2fsettings.py", b"/web/%00", b"/web/%ff"),
            *(b"/web/" + b"a" * 5_000, b"/swagger/a%0d%0ab", b"/web/..", b"/translate/../etc/passwd"),
            *(b"/web/", b"/web/nothing", b"/web/../settings.py", b"/swagger"),
        )
    },
    **{
        f"method {method[:10].decode()}": (get(b"/livez", method), (405,))
        for method in (b"BREW", b"get", b"TRACE", b"DELETE", b"PROPFIND", b"A" * 5_000)
    },
    "request id with line breaks": (_GET + b"Connection: close\r\nX-Request-ID: a%0d%0ab: c\r\n\r\n", (200,)),
    "request id of 10 kB": (
        _GET + b"Connection: close\r\nX-Request-ID: " + b"r" * 10_000 + b"\r\n\r\n",
        (200,),
    ),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", (505,)),
    "upgrade to HTTP/2": (
        post(
            b'{"q":"hello","source":"en","target":"fr"}',
            _TYPE
            | {
                "Connection": "upgrade, http2-settings, close",
                "Upgrade": "h2c",
                "HTTP2-Settings": "AAMAAABk",
            },
        ),
        (200,),
    ),
    "upgrade to WebSocket": (
        _GET + b"Connection: upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
        (200,),
    ),
    "TLS": (bytes.fromhex("1603010200010001fc0303") + random.Random(1).randbytes(500), (400,)),
    "HTTP/1.0": (b"GET /livez HTTP/1.0\r\n\r\n", (200,)),
    **{
        f"random bytes {seed}": (random.Random(seed).randbytes(300) + b"\r\n\r\n", (400,))
        for seed in range(8)
    },
}

GOOD = ask("Good morning.")
