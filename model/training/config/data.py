"""Configuration of the data: corpora, cleaning, vocabulary, batches, augmentation. No torch."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from model.training.config.fields import STRICT, Count, Number, Positive, Seed, Share
from model.validators import require

CorpusFormat = Literal["auto", "tsv", "csv", "aligned", "json", "jsonl", "tmx"]
CorpusPart = Literal["all", "training", "held_out"]
VocabularySize = Annotated[int, Field(ge=8, le=1_000_000)]
Rate = Annotated[Number, Field(ge=0, le=100)]

AUGMENTATION_KINDS = (
    "no_final_stop",
    "capitals",
    "capitalised",
    "lowercase",
    "plain_letters",
    "typing_errors",
    "joined",
    "copied",
)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CorpusConfig:
    """One file, or two aligned files, of parallel text; gzip or plain, with line ends LF or CRLF.

    Attributes:
        path: The file, or the source side of two aligned files.
        source_language: Code of column `source_column`, e.g. `en`.
        target_language: Code of column `target_column`, e.g. `fr`.
        format: `tsv`: columns; `csv`: columns between commas or semicolons, whose first row may be names;
            `tmx`: units with both languages; `aligned`: line n of `path` and of `target_path`; `json`: one
            `[[source, target], ...]`; `jsonl`: one `[source, target]` per line, or an object keyed
            `source`/`target` or by the two language codes. `auto` chooses by the file's name.
        target_path: Target side of two aligned files.
        source_column: Counted from 1; for `tsv`, `csv` and the lists of `json` and `jsonl`.
        target_column: Counted from 1; further columns are ignored.
        weight: How often each pair is drawn in an epoch: 1 draws it once, 2 twice, 0.5 draws another random
            half in every epoch. The vocabulary is learned from the same mixture.
        bidirectional: Train target → source as well: each pair becomes two directed pairs.
        part: Which pairs are read: `all`; `held_out`, one in a hundred, chosen by its source; `training`,
            the others. A text is in one part, however often and in whichever corpus it occurs.
    """

    path: str
    source_language: str
    target_language: str
    format: CorpusFormat = "auto"
    target_path: str | None = None
    source_column: Positive = 1
    target_column: Positive = 2
    weight: Annotated[Number, Field(gt=0, le=1000)] = 1.0
    bidirectional: bool = False
    part: CorpusPart = "all"

    def __post_init__(self) -> None:
        require(bool(self.path), "path", "the name of a file", self.path)
        require(self.target_path != "", "target_path", "the name of a file, or left out", self.target_path)
        for name in ("source_language", "target_language"):
            require(bool(getattr(self, name)), name, "a language code", getattr(self, name))
        differ = self.source_language != self.target_language
        require(differ, "target_language", "different from source_language", self.target_language)
        aligned = self.format == "aligned"
        require(not aligned or self.target_path is not None, "target_path", "given for aligned files", None)
        paired = self.target_path is None or self.format in ("auto", "aligned")
        require(paired, "target_path", f"left out for format {self.format}", self.target_path)
        distinct = self.source_column != self.target_column
        require(distinct, "target_column", "different from source_column", self.target_column)

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """(source, target) codes that the corpus trains, its own order first."""
        forward = (self.source_language, self.target_language)
        return (forward, forward[::-1]) if self.bidirectional else (forward,)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CleaningConfig:
    """Which pairs are dropped; dropped pairs are counted by reason.

    Attributes:
        max_length_tokens: Longest side in token ids, tag and EOS included; checked after tokenising.
        max_length_words: Longest side in words (a Han, kana or Hangul character counts as one).
        max_length_ratio: Words of the longer side divided by words of the shorter one, which counts as at
            least three words because very short sentences differ more ("Hurry!" / "Dépêche-toi donc !").
        deduplicate: Keep only the first of identical pairs, across all corpora.
        drop_copies: Drop pairs whose sides differ in case and white space only.
        check_script: Drop pairs with a side that is not in the script of its language.
    """

    max_length_tokens: Annotated[int, Field(ge=3)] = 256
    max_length_words: Positive = 200
    max_length_ratio: Annotated[Number, Field(ge=1)] = 4.0
    deduplicate: bool = True
    drop_copies: bool = True
    check_script: bool = True


@dataclass(frozen=True, kw_only=True, config=STRICT)
class VocabularyConfig:
    """How text becomes token ids.

    Attributes:
        kind: `unigram` or `bpe` subwords, whole `word`s or single `char`acters.
        size: Number of pieces, special pieces and language tags included; for `word` and `char` an upper
            bound.
        target_size: Number of pieces of the target's vocabulary, if it is not shared; None takes `size`.
        shared: One vocabulary for both sides; needed to tie all embeddings.
        character_coverage: Share of all characters of the text that become pieces.
        byte_fallback: Spell uncovered characters in bytes; `unigram` and `bpe` only.
        minimum_frequency: Rarer words are unknown; `word` only.
        lowercase: Fold the case of both sides first.
        required_characters: Characters that become pieces even if they are rare; `unigram` and `bpe` only.
        split_digits: Make a piece of each digit, so that any number can be copied; `unigram` and `bpe` only.
        separate_punctuation: Put spaces around punctuation, as word vocabularies need.
        max_sentences: Size of the random sample of pairs to learn from; SentencePiece takes about 3 kB of
            memory per pair.
        reuse: Folder of a tokenizer to copy; every other field is then ignored.
    """

    kind: Literal["unigram", "bpe", "word", "char"] = "unigram"
    size: VocabularySize = 8000
    target_size: VocabularySize | None = None
    shared: bool = True
    character_coverage: Annotated[Number, Field(ge=0.5, le=1)] = 0.9995
    byte_fallback: bool = True
    minimum_frequency: Positive = 1
    lowercase: bool = False
    required_characters: str = ""
    split_digits: bool = False
    separate_punctuation: bool = False
    max_sentences: Positive = 2_000_000
    reuse: str | None = None

    def __post_init__(self) -> None:
        has_one_size = self.target_size is None or not self.shared
        require(has_one_size, "target_size", "left out where one vocabulary is shared", self.target_size)
        require(self.reuse != "", "reuse", "the folder of a tokenizer, or left out", self.reuse)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BatchConfig:
    """How pairs are grouped into batches.

    Attributes:
        max_tokens: Most tokens of a batch, padding included: pairs × (longest source + longest target). A
            source counts its tag and EOS, a target its EOS.
        max_sentences: Most pairs of a batch; None for no limit.
        pool_size: Number of pairs that are sorted by length together; a larger pool pads less.
        prefetch: Batches that a background thread prepares in advance; 0 prepares none.
        piece_dropout: Probability of cutting a source piece into smaller ones, drawn in every epoch
            (https://arxiv.org/abs/1804.10959, https://arxiv.org/abs/1910.13267). It teaches the unusual cuts
            of unseen words and typing errors; 0.05 to 0.1 suits small corpora.
        target_piece_dropout: Probability of cutting a target piece.
    """

    max_tokens: Annotated[int, Field(ge=4)] = 4096
    max_sentences: Positive | None = None
    pool_size: Positive = 1_000_000
    prefetch: Count = 8
    piece_dropout: Share = 0.0
    target_piece_dropout: Share = 0.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class AugmentationConfig:
    """Altered copies that are added to the clean pairs, so that a network learns what users type.

    A rate is the expected number of copies per pair: 0.1 copies every tenth pair, 2 copies each pair twice. A
    kind skips pairs that it cannot alter. Copies have the weight of their corpus.

    Attributes:
        no_final_stop: Both sides without final punctuation.
        capitals: Both sides in capitals; skips sources without case.
        capitalised: Both sides with a first capital; skips sources that do not begin with a small letter.
        lowercase: Source in lower case; half of the copies without final punctuation on both sides.
        plain_letters: Source without accents and opening marks, German umlauts as two letters; half of the
            copies without apostrophes, half of them in lower case.
        typing_errors: One or two typing errors in long words of the source.
        joined: Two or three pairs joined, as in a paragraph or where a sentence's end was missed.
        copied: The same synthetic name, number, address or code on both sides: in place of a name or number
            that they share, before or after the sentence, or alone.
        words: How often an epoch draws each pair of single words that translate each other in a corpus, in
            its usual form and with a first capital; multiplied by the weight of the corpus.
        seed: Seed of all choices, below 2⁶³; the same pair has the same copies.
    """

    no_final_stop: Rate = 0.0
    capitals: Rate = 0.0
    capitalised: Rate = 0.0
    lowercase: Rate = 0.0
    plain_letters: Rate = 0.0
    typing_errors: Rate = 0.0
    joined: Rate = 0.0
    copied: Rate = 0.0
    words: Rate = 0.0
    seed: Seed = 0

    @property
    def rates(self) -> dict[str, float]:
        """Expected copies per pair, by kind."""
        return {kind: getattr(self, kind) for kind in AUGMENTATION_KINDS}

    @property
    def is_on(self) -> bool:
        """Whether anything is added to a corpus."""
        return self.words > 0 or any(self.rates.values())
