"""The Python API: `from dragoman import Translator`.

>>> translator = Translator.load("checkpoints/everyday")
>>> translator.translate(["Good morning."], source="en", target="fr")
['Bonjour.']
"""

from model.decode_request import DecodeOptions
from model.errors import TranslationError
from model.translation.result import Translation
from model.translation.translator import Translator

__all__ = ["DecodeOptions", "Translation", "TranslationError", "Translator"]
