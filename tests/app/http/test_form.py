"""Forms are read as `urllib.parse` reads them, in far less time."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.http.body import parse_form
from app.http.errors import RequestError

PIECES = st.sampled_from(
    [
        *("%", "%4", "%41", "%3d", "%3D", "%26", "%2B", "%C3%A9", "%zz", "=", "&", "+", " ", "\n", "\r\n"),
        *("\t", "é", "_", ".", "q", "\0", "🙂", "%0A", "%20"),
    ]
)


@settings(max_examples=500)
@given(st.lists(PIECES, max_size=12).map("".join))
@example("a=%\nb")
@example("a=b \n")
@example("a=b&a")
def test_escapes_mean_what_they_mean_elsewhere(text: str) -> None:
    expected = dict(parse_qsl(text))
    try:
        found = parse_form(text.encode(), 100)
    except RequestError as refusal:
        assert str(refusal) == "the form holds the same field twice"  # noqa: PT017
        return
    assert {name: found[name] for name in found if name != "q"} == {
        name: value for name, value in expected.items() if name != "q"
    }


@pytest.mark.parametrize(
    "body",
    [b"q=" + b"%41" * 340_000, b"q=" + b"%" * 1_000_000, b"q=" + b"+" * 1_000_000, b"q=" + b"=" * 1_000_000],
)
def test_a_megabyte_of_escapes_means_what_it_means_elsewhere(body: bytes) -> None:
    assert parse_form(body, 256) == dict(parse_qsl(body.decode()))


@pytest.mark.parametrize("value", ["x", "[]", '{"seed":1,"seed":2}', '{"seed":NaN}', "[" * 5000 + "]"])
def test_a_field_that_should_hold_json_is_named_where_it_does_not(value: str) -> None:
    with pytest.raises(RequestError, match=r"^`decoding`: input should be a JSON object$") as refusal:
        parse_form(f"q=a&decoding={value}".encode(), 256)
    assert (refusal.value.code, refusal.value.field) == ("invalid_field", "decoding")


def test_there_are_only_so_many_fields() -> None:
    with pytest.raises(RequestError) as crowd:
        parse_form(b"&".join(b"a%d=1" % i for i in range(200)), 256)
    assert crowd.value.status == 422
    with pytest.raises(RequestError, match=r"too many fields: 400, at most 288$") as crowd:
        parse_form(b"&".join([b"q=a"] * 200 + [b"include=x"] * 200), 256)
    assert (crowd.value.code, crowd.value.field) == ("invalid_body", None)


@pytest.mark.parametrize("name", ["q", "text"])
def test_too_many_texts_are_counted(name: str) -> None:
    body = b"&".join([b"include=x", *[f"{name}=a".encode()] * 400])
    with pytest.raises(RequestError, match=rf"^`{name}` is over the limit .*: 400, at most 256$") as texts:
        parse_form(body, 256)
    assert (texts.value.status, texts.value.field) == (413, name)
