"""ⓕ The README of an exported folder: what it is, and how to use it with its framework."""

import json
from collections.abc import Sequence

from model.checkpoint.folder import Checkpoint
from model.text.tokenizer import SOURCE_TAG, TARGET_TAG

_CASING = """\
Dragoman
also gives the network sentences in capitals, and some lone words with a first capital, in small letters."""

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


def instructions(checkpoint: Checkpoint, export_format: str, quantization: str, preparation: str) -> str:
    """Returns the text, in Markdown.

    Args:
        checkpoint: The exported checkpoint.
        export_format: `ctranslate2`, `marian` or `pegasus`.
        quantization: The number type.
        preparation: How a text must be prepared.
    """
    is_ctranslate2 = export_format == "ctranslate2"
    values = _values(checkpoint, "CTranslate2" if is_ctranslate2 else "Hugging Face Transformers")
    values |= {"quantization": quantization, "preparation": preparation}
    values |= _frames(checkpoint)
    target = checkpoint.card.pairs[0][1]
    tag = checkpoint.tokenizer.settings.tags.get(target)
    if tag is None:
        values |= {"tag": "", "tags_rule": ""}
    else:
        rule = f"; the text begins with the language to translate into (`>>{target}<<`)"
        values |= {"tag": f">>{target}<< ", "tags_rule": rule}
    return (_HEAD + (_CTRANSLATE2 if is_ctranslate2 else _HUGGING_FACE)).format(**values)


def _frames(checkpoint: Checkpoint) -> dict[str, str]:
    """Returns what stands around the pieces of a sentence, as code and in words, for the first direction."""
    settings, (source, target) = checkpoint.tokenizer.settings, checkpoint.card.pairs[0]
    tags = {SOURCE_TAG: settings.tags.get(source), TARGET_TAG: settings.tags.get(target)}

    def pieces(parts: Sequence[str]) -> list[str]:
        return [
            json.dumps(piece, ensure_ascii=False)
            for piece in (tags.get(each, each) for each in parts)
            if piece
        ]

    begin, end, forced = map(pieces, (settings.source_begin, settings.source_end, settings.target_begin))
    rule = f"These are the pieces around a sentence in {source} that is translated into {target}."
    if settings.tags:
        rule += " The tags of all languages are in dragoman.json."
    return {
        "begin": "".join(f"{piece}, " for piece in begin),
        "end": "".join(f", {piece}" for piece in end),
        "prefix": f"prefix = [{', '.join(forced)}]\n" if forced else "",
        "forced": "target_prefix=[prefix], " if forced else "",
        "rest": "[len(prefix) :]" if forced else "",
        "frame_rule": rule,
    }


def _values(checkpoint: Checkpoint, framework: str) -> dict[str, object]:
    card, tokenizer, config = checkpoint.card, checkpoint.tokenizer, checkpoint.config
    source_model, target_model = tokenizer.model_files
    bos, eos = tokenizer.source_pieces([config.bos_id, config.eos_id])
    return {
        "source_model": source_model,
        "target_model": target_model,
        "framework": framework,
        "casing": "" if tokenizer.settings.is_foreign else _CASING,
        "name": card.name,
        "version": card.version,
        "checksum": checkpoint.checksum,
        "pairs": ", ".join(f"{source} → {target}" for source, target in card.pairs),
        "max_source_length": card.max_source_length,
        "max_target_length": card.max_target_length,
        "beam_size": card.decoding.beam_size,
        "example": "Good morning.",
        "bos": bos,
        "eos": eos,
    }
