"""Folders of random models of every family of Hugging Face, with tokenizers of a few pieces."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import transformers
from transformers import GenerationConfig, PreTrainedModel

from tests.model.sentencepieces import SENTENCES, pieces_of, train

LANGUAGES = ("eng_Latn", "fra_Latn", "zho_Hans")
PAD, EOS = 60, 0
MODEL = train(SENTENCES * 4, 40)
T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
T5_MODEL = train(SENTENCES * 4, 44, user_defined_symbols=["<2fr>", "<2en>"], **T5_IDS)

_SMALL = {
    "d_model": 20,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 5,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 64,
}
_FAIRSEQ = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
_T5 = {"d_model": 20, "d_kv": 6, "d_ff": 28, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 3}


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def marian(
    folder: Path, *, generation: Mapping[str, object] | None = None, rows: int = PAD + 1, **config: object
) -> PreTrainedModel:
    """OPUS-MT: `</s>` 0, `<unk>` 1, padding last."""
    pad = rows - 1
    texts = [piece for piece in pieces_of(MODEL) if not piece.startswith("<")]
    vocabulary = ["</s>", "<unk>", *texts]
    vocabulary += [f"x{number}" for number in range(pad - len(vocabulary))] + ["<pad>"]
    values = {"vocab_size": rows, "pad_token_id": pad, "eos_token_id": EOS, "decoder_start_token_id": pad}
    model = _random("Marian", "MarianMTModel", {**_SMALL, **values, "forced_eos_token_id": None, **config})
    suppressed: dict[str, object] = {"bad_words_ids": [[pad]]}
    _save(model, folder, {**values, **suppressed, **(generation or {})})
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(MODEL)
    write_json(folder / "vocab.json", {piece: id_ for id_, piece in enumerate(vocabulary)})
    settings = {"source_lang": "eng", "target_lang": "fra"}
    if not model.config.share_encoder_decoder_embeddings:
        settings |= {"separate_vocabs": True}
        rows = model.config.decoder_vocab_size
        targets = [*vocabulary[:-1], *(f"y{number}" for number in range(PAD, rows))][:rows]
        targets[PAD] = "<pad>"
        write_json(folder / "target_vocab.json", {piece: id_ for id_, piece in enumerate(targets)})
    write_json(folder / "tokenizer_config.json", settings)
    return model


def m2m(folder: Path, *, generation: Mapping[str, object] | None = None, **config: object) -> PreTrainedModel:
    """NLLB: fairseq's ids, then languages and `<mask>`."""
    rows = len(pieces_of(MODEL)) + 1 + len(LANGUAGES) + 1
    values = {"vocab_size": rows + 3, **_FAIRSEQ}
    model = _random("M2M100", "M2M100ForConditionalGeneration", {**_SMALL, **values, **config})
    return _fairseq(model, folder, "NllbTokenizer", LANGUAGES, values, generation)


def mbart(
    folder: Path, *, generation: Mapping[str, object] | None = None, **config: object
) -> PreTrainedModel:
    """mBART-50: the same with other codes."""
    rows = len(pieces_of(MODEL)) + 1 + len(LANGUAGES) + 1
    values = {"vocab_size": rows, **_FAIRSEQ, "forced_eos_token_id": None}
    model = _random("MBart", "MBartForConditionalGeneration", {**_SMALL, **values, **config})
    return _fairseq(model, folder, "MBart50Tokenizer", ("en_XX", "fr_XX", "zh_CN"), values, generation)


def pegasus(
    folder: Path, *, generation: Mapping[str, object] | None = None, **config: object
) -> PreTrainedModel:
    """Pegasus's network with Marian's tokenizer, as our exports have it."""
    model = marian(folder, generation=generation)
    values = {"vocab_size": PAD + 1, "pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": PAD}
    extra = {"forced_eos_token_id": None}
    model = _random("Pegasus", "PegasusForConditionalGeneration", {**_SMALL, **values, **extra, **config})
    _save(model, folder, {**values, "bad_words_ids": [[PAD]], **(generation or {})})
    return model


def t5(
    folder: Path, *, family: str = "T5", generation: Mapping[str, object] | None = None, **config: object
) -> PreTrainedModel:
    """MADLAD-400: tags for target languages; rows after the pieces."""
    rows = len(pieces_of(T5_MODEL)) + 5
    values = {"vocab_size": rows, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    model = _random(family, f"{family}ForConditionalGeneration", {**_T5, **values, **config})
    _save(model, folder, {**values, "suppress_tokens": [0, 3, 4], **(generation or {})})
    (folder / "spiece.model").write_bytes(T5_MODEL)
    return model


def _random(prefix: str, name: str, values: Mapping[str, object]) -> PreTrainedModel:
    torch.manual_seed(31 if prefix == "Pegasus" else 7)  # with these, many translations end early
    model = getattr(transformers, name)(getattr(transformers, f"{prefix}Config")(**values))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                around = parameter.mean().round().clamp(0, 1)
                parameter.copy_(around + 0.25 * torch.randn(parameter.shape))
        eos_id = model.config.eos_token_id
        model.get_output_embeddings().weight[eos_id] *= 3
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()[0, eos_id] += 6
    return model.eval()


def _save(model: PreTrainedModel, folder: Path, generation: Mapping[str, object]) -> None:
    model.generation_config = GenerationConfig(**{"max_length": 24, **generation})
    model.save_pretrained(folder)


def _fairseq(
    model: PreTrainedModel,
    folder: Path,
    tokenizer_class: str,
    languages: Sequence[str],
    values: Mapping[str, object],
    generation: Mapping[str, object] | None,
) -> PreTrainedModel:
    rows = len(pieces_of(MODEL)) + 1
    # `suppress_tokens` would rule out the forced first token too.
    marks = [[id_] for id_ in (0, 1, *range(rows, rows + len(languages)))]
    _save(model, folder, {**values, "bad_words_ids": marks, **(generation or {})})
    (folder / "sentencepiece.bpe.model").write_bytes(MODEL)
    write_json(folder / "special_tokens_map.json", {"additional_special_tokens": list(languages)})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer_class})
    return model
