"""The HTTP API: routes, schemas, bodies, answers, errors with their HTTP status, streaming and pages.

`routes` has the paths, `/models` and `/languages` among them, and `schemas` their fields. `body` reads
bodies and refuses those over a limit, unread if they declare their length. `receiving` checks a request that
has a body: its fields (unknown ones too), the lengths of its texts, its client. `middleware` adds the headers
of every answer of a route. `errors` maps every error to its code and status, and has the answers that the
connection gives by itself. The text of an error is where it is raised.
"""
