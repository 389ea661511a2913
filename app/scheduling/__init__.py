"""④ One fair queue of sentences, and the workers (threads that step an engine) that decode them.

A request submits its sentences to `scheduler`, and they wait in `backlog`. A client's part of the engines has
two sides: `fair_queue` gives every client an equal share of the order, and `backlog` bounds how many
hypotheses of a client are decoded at a time. `dispatcher` decides which worker takes a sentence,
`engine_worker` is the thread of a worker, and `engine_batch` has the sentences of one of its engines and
isolates one that makes the engine raise. Under overload `fair_queue` also bounds how many requests begin in
an iteration of the event loop.
"""
