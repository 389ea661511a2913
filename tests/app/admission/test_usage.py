"""Characters by owner of a key, and together for clients without one."""

from app.admission.usage import Usage


def test_each_key_has_its_own_count() -> None:
    usage = Usage()
    usage.add("key:ali", 3)
    usage.add("key:gimli", 4)
    usage.add("key:ali", 5)
    assert [usage.characters(f"key:{name}") for name in ("ali", "gimli", "nobody")] == [8, 4, 0]


def test_addresses_share_one_count() -> None:
    usage = Usage()
    usage.add("address:10.0.0.1", 3)
    usage.add("address:10.0.0.2", 4)
    assert usage.characters("address:10.0.0.3") == 7
