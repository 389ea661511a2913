"""The core: network, decoding and training; knows no HTTP."""
