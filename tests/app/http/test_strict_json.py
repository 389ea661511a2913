"""JSON that costs more than its bytes is refused, whatever else it is."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.http.body import parse_object
from app.http.errors import RequestError

KEYS = ",".join(f'"k{i}":"v"' for i in range(100_000))


def crowd(value: str, count: int) -> str:
    return f'{{"q":[{",".join([value] * count)}]}}'


CROWDS = {
    "keys": f"{{{KEYS}}}",
    "inner keys": f'{{"decoding":{{{KEYS}}}}}',
    "objects": crowd("{}", 300_000),
    "objects with something in them": crowd('{"a":"b"}', 100_000),
    "whole numbers": crowd("1", 500_000),
    "fractions": crowd("1.5", 250_000),
    "numbers in lists": crowd("[1]", 250_000),
}


@pytest.mark.parametrize("text", CROWDS.values(), ids=CROWDS)
def test_a_crowd_is_refused_for_being_one(text: str) -> None:
    """Before all its faults are listed, which takes a second."""
    with pytest.raises(RequestError, match=r"too many (keys|objects and numbers)") as refusal:
        parse_object(text)
    assert (refusal.value.status, refusal.value.code) == (422, "invalid_body")


def test_many_texts_are_no_crowd() -> None:
    value = {"q": [f"{{[number {i}], }}" for i in range(5000)], "alternatives": 3}
    assert parse_object(json.dumps(value)) == value


def test_one_crowd_does_not_count_against_the_next() -> None:
    body = json.dumps({"q": [","] * 2000, "decoding": {"seed": 1}})
    for _ in range(1000):
        assert parse_object(body)["decoding"] == {"seed": 1}


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.integers(-(10**20), 10**20)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text()
        | st.none(),
        max_size=10,
    )
)
def test_what_is_accepted_is_what_json_says(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value)) == json.loads(json.dumps(value))
