"""Whatever the documentation allows or forbids to send, the answer is one that it documents, and no 5xx."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from hypothesis import HealthCheck, settings

from tests.app.remote import Live

if TYPE_CHECKING:
    from schemathesis import Case

CONFIG = {
    "checks": {
        # A client may ask for an answer within a millisecond.
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 504]},
        # Which languages and models are loaded is not documented, so what is allowed may still be unknown.
        "positive_data_acceptance": {"enabled": False},
    }
}
GOLDEN = Path(__file__).parents[1] / "openapi.json"


@pytest.mark.hypothesis
def test_every_answer_is_a_documented_one(live: Live) -> None:
    """`test_information` compares the document with the one that the service gives.

    Schemathesis is imported here, and its pytest plugin switched off in pyproject.toml: it would make all
    requests while each process collects.
    """
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from schemathesis.pytest.lazy import get_all_tests

    def check(case: "Case") -> None:
        response = case.call_and_validate(base_url=live.url, session=session)
        if response.status_code >= 400:
            assert {"error", "code", "request_id"} <= response.json().keys()
            assert len(response.content) <= 2048

    schema = schemathesis.openapi.from_path(GOLDEN, config=SchemathesisConfig.from_dict(CONFIG))
    few = settings(max_examples=3, suppress_health_check=list(HealthCheck))
    results = list(get_all_tests(schema=schema, test_func=check, settings=few, given_kwargs={}))
    assert results
    with requests.Session() as session:
        session.trust_env = False  # else it looks for a proxy before each of two thousand requests
        for result in results:
            _, test = result.ok()
            test()
