"""What Dragoman's speed is, beside others', on the machine at hand. Run as `python -m benchmarks.NAME`."""
