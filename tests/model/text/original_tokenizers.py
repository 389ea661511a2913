"""Tokenizers of `transformers` over small SentencePiece models, and ours over the same files."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]
from transformers.models.m2m_100.tokenization_m2m_100 import M2M100Tokenizer
from transformers.models.marian.tokenization_marian import MarianTokenizer
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART_CODES
from transformers.models.mbart50.tokenization_mbart50 import MBart50Tokenizer
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES
from transformers.models.nllb.tokenization_nllb import NllbTokenizer
from transformers.models.t5.tokenization_t5 import T5Tokenizer
from transformers.tokenization_utils_base import generate_merges

from model.text.tokenizer import Tokenizer, TokenizerSettings, write_tokenizer
from tests.model.sentencepieces import pieces_of, train

Encode = Callable[[str], list[int]]
Decode = Callable[[list[int]], str]
FAIRSEQ = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
_ALPHABETS = {
    "Latin": "abcdefghijklmnopqrstuvwxyzéèçàüößñőž",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψωάέή",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяґї",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשתםן",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويةى\u064e\u0650",
    "Devanagari": "अआइईउऊकखगघचछजझटठडतथदनपबमयरलवशसहािीुेो्ं",
    "Thai": "กขคงจชซดตถทนบปพมยรลวสหอะาิีุเแโ่้",
    "Han": "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会",
    "Kana": "あいうえおかきくけこさしすせそたちつてとなにのはひまみもやらりるれんアイカコスタトン",
    "Hangul": "가나다라마바사아자차하거너더러머서이기니리은는을를에의도고",
}
_EXTRA = (
    *("“", "’", " ", "  ", "\u00a0", "…", "½", "ﬁ", "Ａ", "10.5", "50%"),
    *("🙂", "\u200d", "e\u0301", "?!", "(a)", "\t"),
)
_MARKS = (".", ",", "?", "!", ";", ":", "。", "、", "؟", "।")


def sentences(count: int, seed: int = 1) -> list[str]:
    """Returns made-up sentences in each script in turn, with rare characters between the words."""
    draw = random.Random(seed)
    words = {
        script: ["".join(draw.choices(alphabet, k=draw.randint(1, 8))) for _ in range(150)]
        for script, alphabet in _ALPHABETS.items()
    }
    made = []
    for number in range(count):
        script = list(words)[number % len(words)]
        gap = "" if script in ("Han", "Kana", "Thai") else " "
        chosen = [draw.choice(words[script][: draw.randint(1, 150)]) for _ in range(draw.randint(1, 12))]
        chosen[0] = chosen[0].capitalize()
        if number % 3 == 0:
            chosen.insert(draw.randrange(len(chosen) + 1), draw.choice(_EXTRA))
        if number % 7 == 0:
            chosen.append(draw.choice(words[draw.choice(list(words))]).upper())
        made.append((gap.join(chosen) + draw.choice(_MARKS) * (number % 5 > 0)).strip())
    return made


def _both(theirs: Any, folder: Path, tag: str = "") -> tuple[Encode, Decode, Tokenizer]:
    return (
        lambda text: theirs(tag + text)["input_ids"],
        lambda ids: theirs.decode(ids, skip_special_tokens=True),
        Tokenizer.load(folder),
    )


def marian(folder: Path, texts: Sequence[str]) -> tuple[Encode, Decode, Tokenizer]:
    """OPUS-MT: two models, one vocabulary, a tag in the text."""
    options = {"unk_id": 1, "eos_id": 0, "bos_id": -1}
    models = [train(half, 700, **options) for half in (texts[::2], texts[1::2])]
    both = [piece for model in models for piece in pieces_of(model)]
    pieces = [*dict.fromkeys(["</s>", "<unk>", *sorted(both), ">>fra<<", ">>deu<<"]), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: id_ for id_, piece in enumerate(pieces)}))
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    theirs = MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")), separate_vocabs=False
    )
    last = len(pieces) - 1
    settings = TokenizerSettings(
        tags={"fr": ">>fra<<", "de": ">>deu<<"},
        special_ids={"eos": 0, "unk": 1, "pad": last, "bos": last},
        prepare="none",
    )
    files = {"source.model": models[0], "target.model": models[1]}
    write_tokenizer(folder, settings, models=files, vocabularies={"vocabulary.json": pieces})
    return _both(theirs, folder, tag=">>fra<<")


def _fairseq(folder: Path, model: bytes, tags: dict[str, str], others: Sequence[str] = ()) -> list[str]:
    """Writes our tokenizer with ids in fairseq's order, and returns the pieces."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)[3:], *others]
    settings = TokenizerSettings(
        tags=tags, special_ids=FAIRSEQ, source_begin=("{source}",), target_begin=("{target}",), prepare="none"
    )
    vocabularies = {"vocabulary.json": pieces}
    write_tokenizer(folder, settings, models={"tokenizer.model": model}, vocabularies=vocabularies)
    return pieces


def m2m100(folder: Path, texts: Sequence[str]) -> tuple[Encode, Decode, Tokenizer]:
    """M2M100: the SentencePiece model cuts, a list of pieces numbers, `__en__` begins."""
    model = train(texts, 700, model_type="bpe")
    encoder = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)[3:]]
    (folder / "vocab.json").write_text(json.dumps({piece: id_ for id_, piece in enumerate(encoder)}))
    (folder / "model.spm").write_bytes(model)
    theirs = M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "model.spm"), src_lang="en", tgt_lang="fr"
    )
    codes = list(theirs.lang_code_to_token)
    tags = {code: f"__{code}__" for code in codes}
    _fairseq(folder, model, tags, [tags[code] for code in codes])
    return _both(theirs, folder)


def nllb(folder: Path, texts: Sequence[str]) -> tuple[Encode, Decode, Tokenizer]:
    """NLLB: the same numbering, cut by `tokenizers` from the merges of the model."""
    model = train(texts, 700, model_type="bpe")
    proto = ModelProto()
    proto.ParseFromString(model)
    tags = {"en": "eng_Latn", "fr": "fra_Latn"}
    pieces = _fairseq(folder, model, tags, [*NLLB_CODES, "<mask>"])
    vocabulary = {piece: id_ for id_, piece in enumerate(pieces)}
    learnt = {piece: id_ for piece, id_ in vocabulary.items() if id_ < len(pieces) - len(NLLB_CODES) - 1}
    theirs = NllbTokenizer(
        vocab=vocabulary,
        merges=generate_merges(learnt),
        src_lang="eng_Latn",
        tgt_lang="fra_Latn",
        _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
    )
    return _both(theirs, folder)


def mbart50(folder: Path, texts: Sequence[str]) -> tuple[Encode, Decode, Tokenizer]:
    """mBART-50: the same numbering, cut by `tokenizers` from the scores of the model."""
    model = train(texts, 700)
    proto = ModelProto()
    proto.ParseFromString(model)
    tags = {"en": "en_XX", "fr": "fr_XX"}
    pieces = _fairseq(folder, model, tags, [*MBART_CODES, "<mask>"])
    scores = {piece.piece: piece.score for piece in proto.pieces}
    theirs = MBart50Tokenizer(
        vocab=[(piece, scores.get(piece, 0.0)) for piece in pieces],
        src_lang="en_XX",
        tgt_lang="fr_XX",
        _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
    )
    return _both(theirs, folder)


def t5(folder: Path, texts: Sequence[str]) -> tuple[Encode, Decode, Tokenizer]:
    """T5: the model's ids, sentinels after them."""
    model = train(texts, 700, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    proto = ModelProto()
    proto.ParseFromString(model)
    sentinels = [f"<extra_id_{number}>" for number in range(99, -1, -1)]
    pieces = [*pieces_of(model), *sentinels]
    scores = [(piece.piece, piece.score) for piece in proto.pieces]
    theirs = T5Tokenizer(
        vocab=[*scores, *((piece, 0.0) for piece in sentinels)],
        _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap,
    )
    settings = TokenizerSettings(special_ids={"pad": 0, "eos": 1, "unk": 2, "bos": 0}, prepare="none")
    vocabularies = {"vocabulary.json": pieces}
    write_tokenizer(folder, settings, models={"tokenizer.model": model}, vocabularies=vocabularies)
    return _both(theirs, folder)


FAMILIES = {each.__name__: each for each in (marian, m2m100, nllb, mbart50, t5)}
