"""The HTTP API: routes, schemas, bodies, answers, errors with their HTTP status, streaming and pages.

`routes` has the paths, `/models` and `/languages` among them, and `schemas` their fields. `body` reads
bodies and refuses those over a limit, unread if they declare their length. `receiving` checks a request that
has a body: its fields (unknown ones too), the lengths of its texts, its client. `middleware` adds the headers
of every answer of a route. `errors` maps every error to its code and status, and has the answers that the
connection gives by itself. The text of an error is where it is raised.

What handles a request exchanges these keys of its `scope["state"]`:

    key          set by                           read by
    request_id   middleware                       errors, the connection
    permit       the connection, else receiving   receiving; middleware, which releases it
    endpoint     openapi (an operation)           middleware, for metrics, log and trace
    abandon      streaming                        the connection, when the client leaves
    wire_status  the connection                   middleware
    waited       a front of a cluster             receiving
"""
