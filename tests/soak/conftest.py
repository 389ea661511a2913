"""The soak runs only where it is asked for."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" in config.getoption("-m"):
        return
    reason = "takes SOAK_SECONDS, ten minutes by default; `make soak` runs it"
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason=reason))
