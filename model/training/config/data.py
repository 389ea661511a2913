"""What the trainer reads, cleans, learns pieces from and batches: every value, checked once. No torch."""

from dataclasses import dataclass
from typing import Literal

from model.validators import require, require_choice, require_flag, require_integer, require_number

CorpusFormat = Literal["auto", "tsv", "aligned", "json", "jsonl"]
VocabularyKind = Literal["unigram", "bpe", "word", "char"]

CORPUS_FORMATS: tuple[CorpusFormat, ...] = ("auto", "tsv", "aligned", "json", "jsonl")
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
VOCABULARY_KINDS: tuple[VocabularyKind, ...] = ("unigram", "bpe", "word", "char")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """One file, or two aligned files, of parallel text; gz or plain, lines that end in LF or CRLF.

    Attributes:
        path: The file; with `target_path` the source side of two aligned files.
        source_language: Code of column `source_column`, e.g. `en`.
        target_language: Code of column `target_column`, e.g. `fr`.
        format: `tsv`: columns; `aligned`: line n of `path` and of `target_path`; `json`: one
            `[[source, target], ...]`; `jsonl`: a line each, `[source, target]` or an object
            keyed `source`/`target` or by the two language codes. `auto` goes by the name.
        target_path: Target side of two aligned files.
        source_column: Counted from 0; for `tsv` and for the lists of `json` and `jsonl`.
        target_column: The same; further columns are ignored.
        weight: How often each pair is drawn in an epoch. 1 is once, 2 twice, 0.5 a fresh random
            half in every epoch; so corpora of weights 3 and 1 are mixed 3 to 1 per pair. The
            vocabulary is learned from the same mixture.
        bidirectional: Train target → source as well: each pair appears as two directed pairs.
    """

    path: str
    source_language: str
    target_language: str
    format: CorpusFormat = "auto"
    target_path: str | None = None
    source_column: int = 0
    target_column: int = 1
    weight: float = 1.0
    bidirectional: bool = False

    def __post_init__(self) -> None:
        require(bool(self.path), "path", "the name of a file", self.path)
        require(self.target_path != "", "target_path", "the name of a file, or left out", self.target_path)
        for name in ("source_language", "target_language"):
            require(bool(getattr(self, name)), name, "a language code", getattr(self, name))
        differ = self.source_language != self.target_language
        require(differ, "target_language", "different from source_language", self.target_language)
        require_choice("format", self.format, CORPUS_FORMATS)
        aligned = self.format == "aligned"
        require(not aligned or self.target_path is not None, "target_path", "given for aligned files", None)
        paired = self.target_path is None or self.format in ("auto", "aligned")
        require(paired, "target_path", f"left out for format {self.format}", self.target_path)
        require_integer("source_column", self.source_column, 0)
        require_integer("target_column", self.target_column, 0)
        distinct = self.source_column != self.target_column
        require(distinct, "target_column", "different from source_column", self.target_column)
        require_number("weight", self.weight, 0, 1000, open_minimum=True)
        require_flag("bidirectional", self.bidirectional)

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """(source, target) codes it trains, the corpus' own order first."""
        forward = (self.source_language, self.target_language)
        return (forward, forward[::-1]) if self.bidirectional else (forward,)


@dataclass(frozen=True, kw_only=True)
class CleaningConfig:
    """Which pairs are dropped; every drop is counted by its reason.

    Attributes:
        max_length_tokens: Longest side in token ids, tag and EOS included; checked after tokenising.
        max_length_words: Longest side in words (a Han, kana or Hangul character counts as one).
        max_length_ratio: Longer side over shorter one, in words. The shorter counts as at least
            three words, because very short sentences differ honestly ("Hurry!" / "Dépêche-toi donc !").
        deduplicate: Keep only the first of identical pairs, across all corpora.
        drop_copies: Drop pairs whose two sides are the same but for case and white space.
        check_script: Drop pairs with a side that is not in its language's script.
    """

    max_length_tokens: int = 256
    max_length_words: int = 200
    max_length_ratio: float = 4.0
    deduplicate: bool = True
    drop_copies: bool = True
    check_script: bool = True

    def __post_init__(self) -> None:
        require_integer("max_length_tokens", self.max_length_tokens, 3)
        require_integer("max_length_words", self.max_length_words, 1)
        require_number("max_length_ratio", self.max_length_ratio, 1)
        for name in ("deduplicate", "drop_copies", "check_script"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """How text becomes token ids.

    Attributes:
        kind: `unigram` or `bpe` subwords, whole `word`s or single `char`acters.
        size: Pieces a vocabulary has, special ones and language tags included. For `word` and
            `char` it is a bound: they have as many as the text has.
        target_size: The same of the target's own vocabulary, where it is not shared; None is `size`.
        shared: One vocabulary for both sides; needed to tie all embeddings.
        character_coverage: Share of all characters that get a piece of their own.
        byte_fallback: Spell what is not covered in bytes rather than lose it; `unigram` and `bpe` only.
        minimum_frequency: For `word`: rarer words are unknown.
        lowercase: Fold case on both sides before anything else.
        required_characters: These get a piece of their own, however rare they are; `unigram` and `bpe` only.
        split_digits: No piece holds two digits, so that any number can be carried over; likewise.
        separate_punctuation: Put spaces around punctuation, as word vocabularies need.
        max_sentences: A random sample of at most so many pairs is learned from; each takes SentencePiece
            about 3 kB of memory.
        reuse: Folder of a tokenizer to copy rather than train; every other field is then ignored.
    """

    kind: VocabularyKind = "unigram"
    size: int = 8000
    target_size: int | None = None
    shared: bool = True
    character_coverage: float = 0.9995
    byte_fallback: bool = True
    minimum_frequency: int = 1
    lowercase: bool = False
    required_characters: str = ""
    split_digits: bool = False
    separate_punctuation: bool = False
    max_sentences: int = 2_000_000
    reuse: str | None = None

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, VOCABULARY_KINDS)
        require_integer("size", self.size, 8, 1_000_000)
        if self.target_size is not None:
            require_integer("target_size", self.target_size, 8, 1_000_000)
            require(
                not self.shared, "target_size", "left out where one vocabulary is shared", self.target_size
            )
        require_number("character_coverage", self.character_coverage, 0.5, 1)
        require_integer("minimum_frequency", self.minimum_frequency, 1)
        require_integer("max_sentences", self.max_sentences, 1)
        require(self.reuse != "", "reuse", "the folder of a tokenizer, or left out", self.reuse)
        for name in ("shared", "byte_fallback", "split_digits", "lowercase", "separate_punctuation"):
            require_flag(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class BatchConfig:
    """How pairs are grouped.

    Attributes:
        max_tokens: Bound on what a batch costs: pairs × (longest source + longest target), where
            source counts its tag and EOS and target its EOS; so padding is charged as well.
        max_sentences: Bound on its pairs; None for no bound.
        pool_size: Pairs sorted by length together; a larger pool pads less.
        prefetch: Batches made ready ahead of time in a background thread; 0 for none.
        piece_dropout: Probability that a piece of a source is cut into smaller ones, anew in every epoch
            (https://arxiv.org/abs/1804.10959, https://arxiv.org/abs/1910.13267): so that unseen words
            and typing errors, which are cut oddly, are no surprise. 0.05 to 0.1 suits small corpora.
        target_piece_dropout: The same of targets.
    """

    max_tokens: int = 4096
    max_sentences: int | None = None
    pool_size: int = 1_000_000
    prefetch: int = 8
    piece_dropout: float = 0.0
    target_piece_dropout: float = 0.0

    def __post_init__(self) -> None:
        require_integer("max_tokens", self.max_tokens, 4)
        if self.max_sentences is not None:
            require_integer("max_sentences", self.max_sentences, 1)
        require_integer("pool_size", self.pool_size, 1)
        require_integer("prefetch", self.prefetch, 0)
        for name in ("piece_dropout", "target_piece_dropout"):
            require_number(name, getattr(self, name), 0, 1)


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig:
    """Altered copies of clean pairs, beside them: so that a network knows what people type.

    A rate is how many copies of each pair are expected: 0 none, 0.1 of every tenth, 2 two of each. A pair
    that a kind cannot alter has none of it. Copies are drawn as often as their corpus' weight says.

    Attributes:
        no_final_stop: Both sides without final punctuation.
        capitals: Both sides in capitals, as far as a script has them; none of sources without case.
        capitalised: Both sides with a first capital, where the source has a small letter: words and phrases.
        lowercase: Source in lower case; half of them without final punctuation, on both sides.
        plain_letters: Source without accents and opening marks, German umlauts as two letters, half of them
            without apostrophes; half of them besides as `lowercase` has them.
        typing_errors: One or two slips in long words of the source.
        joined: Two or three pairs as one, as in a passage or where a sentence's end was missed.
        copied: The same made-up name, figure, address, code … on both sides: in place of a name or number
            that they share, beside the sentence, or alone.
        words: How often in an epoch each pair of single words is drawn that translate each other in a
            corpus, once as it is and, if the source's script has case, once with a first capital; times the
            corpus' weight.
        seed: Of all choices, below 2⁶³; the same pair gives the same copies.
    """

    no_final_stop: float = 0.0
    capitals: float = 0.0
    capitalised: float = 0.0
    lowercase: float = 0.0
    plain_letters: float = 0.0
    typing_errors: float = 0.0
    joined: float = 0.0
    copied: float = 0.0
    words: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for kind in (*AUGMENTATION_KINDS, "words"):
            require_number(kind, getattr(self, kind), 0, 100)
        require_integer("seed", self.seed, 0, 2**63 - 1)

    @property
    def rates(self) -> dict[str, float]:
        """Expected copies of each pair, by kind."""
        return {kind: getattr(self, kind) for kind in AUGMENTATION_KINDS}

    @property
    def is_on(self) -> bool:
        """Whether there is anything to add to a corpus."""
        return self.words > 0 or any(self.rates.values())
