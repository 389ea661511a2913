"""Marian's models: `folder` reads the files of one, with the binary files and the network in them."""
