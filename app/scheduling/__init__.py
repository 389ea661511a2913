"""④ One fair queue of sentences, and the workers (threads that step an engine) that decode them."""
