"""ⓐ–ⓓ Parallel text on its way to batches: read, cleaned, tokenised, grouped."""
