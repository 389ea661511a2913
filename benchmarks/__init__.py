"""Measures Dragoman's speed, compared with others', on this machine. Run as `python -m benchmarks.NAME`."""
