"""Hugging Face's folders: `folder` reads one, with the networks of its families and their tokenizers."""
