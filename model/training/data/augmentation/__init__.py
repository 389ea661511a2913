"""ⓓ Altered copies of training pairs, which teach a network what users type, not only edited sentences."""
