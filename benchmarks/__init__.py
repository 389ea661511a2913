"""Measures Dragoman's speed, compared with others', on this machine. Run as `python -m benchmarks.NAME`.

`decode` measures engines (greedy and beam search, by batch size), `serve` whole services, `training` updates.
"""
