"""Export of checkpoints to CTranslate2 and Hugging Face, whose packages are imported only for an export."""

from collections.abc import Mapping

_HUGGING_FACE = ("float32", "float16", "bfloat16")

QUANTIZATIONS: Mapping[str, tuple[str, ...]] = {
    "ctranslate2": (*_HUGGING_FACE, "int16", "int8", "int8_float16", "int8_bfloat16"),
    "marian": _HUGGING_FACE,
    "pegasus": _HUGGING_FACE,
}
"""Number types by format."""

DESCRIPTION = "dragoman.json"
"""The file that marks an exported folder."""
