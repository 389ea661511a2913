"""Connections: uvicorn's server and protocol, with limits on heads, bodies, idle time and connections."""
