"""ⓕ The formats that a checkpoint can be exported to, and what each can store numbers in. No torch."""

from collections.abc import Mapping

_HUGGING_FACE = ("float32", "float16", "bfloat16")

QUANTIZATIONS: Mapping[str, tuple[str, ...]] = {
    "ctranslate2": (*_HUGGING_FACE, "int16", "int8", "int8_float16", "int8_bfloat16"),
    "marian": _HUGGING_FACE,
    "pegasus": _HUGGING_FACE,
}
"""By format."""

DESCRIPTION = "dragoman.json"
"""What makes a folder an exported one."""
