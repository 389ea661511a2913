"""The offline trainer: parallel text in, checkpoint folder out."""
