"""④ One fair queue of sentences, and the workers (threads that step an engine) that decode them.

A client's part of the engines has two sides: `fair_queue` gives every client an equal share of the order, and
`backlog` bounds how many hypotheses of a client are decoded at a time. `start_limiter` bounds how many
requests begin at a time under overload.
"""
