"""Connections: uvicorn's server and protocol; `head` limits heads, `limits` number and rate of clients."""
