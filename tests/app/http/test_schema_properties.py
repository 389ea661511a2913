"""Whatever the documentation allows or forbids to send, the answer is one that it documents, and no 5xx."""

from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.config import SchemathesisConfig

from tests.app.remote import Live

CONFIG = {
    "checks": {
        # Somebody may ask for an answer within a millisecond.
        "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 504]},
        # Which languages and models are loaded is not documented, so what is allowed may still be unknown.
        "positive_data_acceptance": {"enabled": False},
    }
}
# That the service gives this very document is the business of another test.
SCHEMA = schemathesis.openapi.from_path(
    Path(__file__).parents[1] / "openapi.json", config=SchemathesisConfig.from_dict(CONFIG)
)


@SCHEMA.parametrize()
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
def test_every_answer_is_a_documented_one(live: Live, case: Case) -> None:
    response = case.call_and_validate(base_url=live.url)
    if response.status_code >= 400:
        assert {"error", "code", "request_id"} <= response.json().keys()
        assert len(response.content) <= 2048
