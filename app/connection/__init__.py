"""Connections: uvicorn's server and protocol; `head` limits heads, `limits` the number and rate of clients."""
