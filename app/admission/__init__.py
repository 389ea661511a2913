"""Decides which requests are served: API keys, rate limits, quotas, and the gate.

A request may be refused, in this order, by the connection limit, the gate at its head, the keys and rates,
and the queue. `quota` is the part of the permits, the bytes and the queue that one client may take, and the
rate that `Retry-After` follows; the part of the engines is in `app.scheduling`.

The field `Authorization` is read twice: by the gate, which must know the client before the body arrives, and
by `client_of` in `app.http.receiving`, which also finds a key in the body.
"""
