"""ⓓ Altered copies of training pairs, so that a network meets what people type, not only whole sentences."""
