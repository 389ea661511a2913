"""ⓓ Altered copies of training pairs, in capitals or with typing errors for instance, as users type."""
