"""① ⑨ Connections: bytes become requests, answers become bytes, and some are turned away at the door."""
