"""`dragoman export`: writes a checkpoint in the format of another framework, with a README, in one step."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from model.checkpoint.exporting import DESCRIPTION, QUANTIZATIONS
from model.checkpoint.folder import Checkpoint
from model.checkpoint.manifest import write_json
from model.errors import ConfigError
from model.files import atomic_folder
from model.text.tokenizer import SOURCE_TAG, TARGET_TAG
from model.validators import require_choice

_CASING = """\
Dragoman
also gives the network sentences in capitals, and some lone words with a first capital, in small letters."""

_SPACED_MARKS = (
    "a space between an opening bracket or quotation mark, a slash or a dash and the word that follows"
    " (to be removed from translations)"
)
_HEAD = """\
# {name} {version}, for {framework}

Exported by `dragoman export` from the checkpoint with the checksum `{checksum}` ({pairs}).
Its numbers are {quantization}; in float32 its greedy translations of text so prepared are those of
Dragoman, token by token.

Texts are prepared before SentencePiece sees them: {preparation}. {casing}
A source is at most {max_source_length} tokens; longer text must be split into sentences first.
"""

_CTRANSLATE2 = """
```python
import ctranslate2, sentencepiece

translator = ctranslate2.Translator(".", device="cpu")
source = sentencepiece.SentencePieceProcessor("{source_model}")
target = sentencepiece.SentencePieceProcessor("{target_model}")

tokens = [{begin}*source.encode("{example}", out_type=str){end}]
{prefix}result = translator.translate_batch(
    [tokens], {forced}beam_size={beam_size}, max_decoding_length={max_target_length}
)
print(target.decode(result[0].hypotheses[0]{rest}))
```

{frame_rule} Language tags, padding and `{bos}` are ruled out as output by
the bias of the last projection, so that no option is needed for that. By itself CTranslate2 produces at least
one token; `min_decoding_length=0` allows none, as Dragoman does.
"""

_HUGGING_FACE = """
```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(".")
model = AutoModelForSeq2SeqLM.from_pretrained(".")
batch = tokenizer(["{tag}{example}"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

The tokenizer is Marian's and adds `{eos}` itself{tags_rule}. `generate` is greedy unless told otherwise
(`num_beams={beam_size}`).
"""


def export_checkpoint(
    checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str = "float32"
) -> None:
    """Writes a checkpoint in the format of another framework.

    Args:
        checkpoint: The checkpoint to export.
        folder: Folder to write; an existing one is replaced in one step.
        export_format: A key of QUANTIZATIONS.
        quantization: One of the format's number types.

    Raises:
        ConfigError: If the format's package is not installed, or the format cannot represent the
            configuration or the number type.
        OSError: If the folder cannot be written; it is unchanged then.
    """
    require_choice("format", export_format, tuple(QUANTIZATIONS))
    require_choice("quantization", quantization, QUANTIZATIONS[export_format])
    _require_package("ctranslate2" if export_format == "ctranslate2" else "transformers", export_format)
    with atomic_folder(folder) as temporary:
        if export_format == "ctranslate2":
            from model.checkpoint.exporting.ctranslate2 import write_ctranslate2

            write_ctranslate2(checkpoint, temporary, quantization)
        else:
            from model.checkpoint.exporting.hugging_face import write_hugging_face

            write_hugging_face(checkpoint, temporary, export_format, quantization)
        _describe(checkpoint, temporary, export_format, quantization)


def _require_package(name: str, export_format: str) -> None:
    """Refuses a format whose package is not installed; the message names the extra that brings it."""
    try:
        import_module(name)
    except ModuleNotFoundError:
        requirement = f"a format whose package is installed ({name}: pip install --editable '.[export]')"
        raise ConfigError("format", requirement, export_format) from None


def _describe(checkpoint: Checkpoint, folder: Path, export_format: str, quantization: str) -> None:
    """Writes what an exported folder says of itself: `dragoman.json` for programs, a README for people."""
    card, settings = checkpoint.card, checkpoint.tokenizer.settings
    common = {
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "max_source_length": card.max_source_length,
        "max_target_length": card.max_target_length,
        "quantization": quantization,
    }
    described = {
        **common,
        "pairs": [list(pair) for pair in card.pairs],
        "language_tags": dict(settings.tags),
        "lowercase": settings.lowercase,
        "separate_punctuation": settings.separate_punctuation,
        "space_after_marks": settings.space_after_marks,
        "prepare": settings.prepare,
    }
    write_json(folder / DESCRIPTION, described)
    is_ctranslate2 = export_format == "ctranslate2"
    words = {
        **common,
        **_frame(checkpoint),
        "framework": "CTranslate2" if is_ctranslate2 else "Hugging Face Transformers",
        "pairs": ", ".join(f"{source} → {target}" for source, target in card.pairs),
        "preparation": _preparation(checkpoint),
        "casing": "" if settings.is_imported else _CASING,
        "example": "Good morning.",
        "beam_size": card.decoding.beam_size,
    }
    text = (_HEAD + (_CTRANSLATE2 if is_ctranslate2 else _HUGGING_FACE)).format(**words)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _preparation(checkpoint: Checkpoint) -> str:
    """Describes how a text must be prepared for SentencePiece."""
    settings = checkpoint.tokenizer.settings
    if settings.is_imported:
        return "no control characters"
    steps = [
        "Unicode NFC",
        "no control characters",
        "' for ’ between letters",
        "characters that the vocabulary lacks in ones that it has",
        *(["lower case"] if settings.lowercase else []),
        *([_SPACED_MARKS] if settings.space_after_marks else []),
        *(["a space before each of `, . ! ?` that has none"] if settings.separate_punctuation else []),
    ]
    return ", ".join(steps)


def _frame(checkpoint: Checkpoint) -> dict[str, str]:
    """Returns the tokenizer's files, and what stands around a sentence of the first direction."""
    tokenizer, config = checkpoint.tokenizer, checkpoint.config
    settings, (source, target) = tokenizer.settings, checkpoint.card.pairs[0]
    tags = {SOURCE_TAG: settings.tags.get(source), TARGET_TAG: settings.tags.get(target)}

    def pieces(parts: Sequence[str]) -> list[str]:
        found = filter(None, (tags.get(part, part) for part in parts))
        return [json.dumps(piece, ensure_ascii=False) for piece in found]

    begin, end, forced = map(pieces, (settings.source_begin, settings.source_end, settings.target_begin))
    rule = f"These are the pieces around a sentence in {source} that is translated into {target}."
    source_model, target_model = tokenizer.model_files
    bos, eos = tokenizer.source_pieces([config.bos_id, config.eos_id])
    tag_rule = f"; the text begins with the language to translate into (`>>{target}<<`)"
    return {
        "source_model": source_model,
        "target_model": target_model,
        "bos": bos,
        "eos": eos,
        "begin": "".join(f"{piece}, " for piece in begin),
        "end": "".join(f", {piece}" for piece in end),
        "prefix": f"prefix = [{', '.join(forced)}]\n" if forced else "",
        "forced": "target_prefix=[prefix], " if forced else "",
        "rest": "[len(prefix) :]" if forced else "",
        "frame_rule": rule + (" The tags of all languages are in dragoman.json." if settings.tags else ""),
        "tag": f">>{target}<< " if target in settings.tags else "",
        "tags_rule": tag_rule if target in settings.tags else "",
    }
