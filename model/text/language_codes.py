"""What a language code says."""

_SPACELESS = frozenset({"zh", "ja", "th", "lo", "km", "my"})


def base_language(code: str) -> str:
    """A language code without script and region: `zh` of `zh-Hans`."""
    return code.partition("-")[0].lower()


def is_spaceless(code: str) -> bool:
    """Whether its words and sentences follow each other without a space."""
    return base_language(code) in _SPACELESS
