"""⑤ The network and the search in C++, for a CPU: no torch, no Python between two steps.

src/          the library
build         compiles it, once for each instruction set
binding       finds the one that this processor runs, and its functions
structures    what goes in and comes out, as the library lays it out in memory
tensors       where the numbers of a tensor lie, whoever holds it
network       a network's packed weights, shared by all threads
session       one running batch
operators     what a training step computes here
"""
