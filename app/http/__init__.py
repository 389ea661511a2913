"""The HTTP API: routes, schemas, bodies, answers, errors with their HTTP status, streaming and pages."""
