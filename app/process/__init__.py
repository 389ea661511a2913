"""The process: its socket, what it serves from loading to the end, and how it ends."""
