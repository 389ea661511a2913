"""⑤ Source ids in, hypotheses out: search over the network's cached one-token step.

    engine        requests → batches → results, in the order of the requests
    sentence      one admitted request: its checks and its length bounds
    batches       which sentences share a batch
    running       one batch: step, choose, hand back what has finished, shrink
    constraints   what may not be produced
    search/       greedy, sampling, beam; one protocol
    scoring       length and coverage penalties
    trace         who produced which token, and the way back to a hypothesis
    score         the log-probability of a given translation
    observer      what metrics may see

Token ids are the only contract with the text on either side.
"""
