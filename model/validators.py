"""The few checks that many modules share; those of a field raise ConfigError with its name."""

import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from importlib.util import find_spec

from model.errors import ConfigError, MissingTorchError


def require(
    condition: bool, field: str, requirement: str, value: object, *, is_missing: bool = False
) -> None:
    """Raises ConfigError, which takes the other arguments, unless `condition` holds."""
    if not condition:
        raise ConfigError(field, requirement, value, is_missing=is_missing)


def require_given(is_given: bool, field: str, requirement: str = "given") -> None:
    """Requires that a setting is not left out."""
    require(is_given, field, requirement, None, is_missing=True)


def require_choice(field: str, value: object, choices: Collection[str]) -> None:
    """Requires one of a few names."""
    require(value in choices, field, "one of " + ", ".join(choices), value)


def require_known(values: Mapping[str, object], known: Collection[str]) -> None:
    """Requires that every key is a known name; the error begins with the known name nearest to the key."""
    for name in values:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            others = [each for each in known if each not in nearest]
            choices = [f"{each} (the nearest name)" for each in nearest] + others
            raise ConfigError(name, "one of " + ", ".join(choices), values[name])


def require_flag(field: str, value: object) -> None:
    """Requires true or false."""
    require(isinstance(value, bool), field, "true or false", value)


def require_integer(field: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Requires an integer (not a bool) within bounds, both included."""
    bounds = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"
    fits = (
        isinstance(value, int)
        and not isinstance(value, bool)
        and value >= minimum
        and (maximum is None or value <= maximum)
    )
    require(fits, field, f"an integer {bounds}", value)


def require_number(
    field: str,
    value: object,
    minimum: float,
    maximum: float = math.inf,
    *,
    open_minimum: bool = False,
    open_maximum: bool = False,
) -> None:
    """Requires a finite number within bounds; `open_minimum` and `open_maximum` exclude them."""
    lower = f"above {minimum:g}" if open_minimum else f"at least {minimum:g}"
    upper = f"below {maximum:g}" if open_maximum else f"at most {maximum:g}"
    bounds = lower if maximum == math.inf else f"{lower} and {upper}"
    fits = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and -math.inf < value < math.inf
        and (value > minimum if open_minimum else value >= minimum)
        and (value < maximum if open_maximum else value <= maximum)
    )
    require(fits, field, f"a number {bounds}", value)


def has_torch() -> bool:
    """Returns whether PyTorch is installed, without loading it."""
    return find_spec("torch") is not None


def require_torch(need: str) -> None:
    """Raises MissingTorchError if PyTorch is not installed; `need` is what needs it, a noun phrase."""
    if not has_torch():
        raise MissingTorchError(need)
