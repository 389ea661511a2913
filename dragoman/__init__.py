"""The Python API: `from dragoman import Translator`.

>>> translator = Translator.load("checkpoints/everyday")
>>> translator.translate(["Good morning."], source="en", target="fr")
['Bonjour.']
"""

from model.errors import TranslationError
from model.request import DecodeOptions
from model.translation.result import Translation
from model.translation.translator import Translator

__all__ = ["DecodeOptions", "Translation", "TranslationError", "Translator"]
