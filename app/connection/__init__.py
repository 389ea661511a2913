"""Connections under uvicorn's server: the socket, the HTTP/1.1 protocol, and the processes that share a port.

`protocol` asks the gate as soon as a head is complete. `head` limits heads, `limits` number and rate of
clients. `supervisor` starts several service processes and replaces those that end and those whose
event loop stalls.
"""
