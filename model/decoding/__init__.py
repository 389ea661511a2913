"""The decoding engine: token ids in, hypotheses out."""
