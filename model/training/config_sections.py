"""The sections of a training configuration, one class each, and the values that they accept. No torch.

A TOML file has one table for each; `train_config` reads it. The docstrings are the help of the options.
"""

import inspect
import re
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from model.checkpoint.weights import StorageType
from model.evaluation import Metric
from model.validators import require, require_given

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""The rules of every configuration class: no value is converted, no unknown field is accepted."""
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Number = float | int
"""A number as the file has it: fingerprints of data tell 2 from 2.0."""
Share = Annotated[Number, Field(ge=0, le=1)]
CorpusFormat = Literal["auto", "tsv", "csv", "aligned", "json", "jsonl", "tmx"]
CorpusPart = Literal["all", "training", "held_out"]
VocabularySize = Annotated[int, Field(ge=8, le=1_000_000)]
Rate = Annotated[Number, Field(ge=0, le=100)]
ScheduleForm = Literal["inverse_sqrt", "noam", "cosine", "constant"]
Decay = Annotated[Number, Field(ge=0, le=0.99999)]
AboveZero = Annotated[Number, Field(gt=0)]
FromZero = Annotated[Number, Field(ge=0)]
Precision = Literal["float32", "bfloat16", "float16"]


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
        require_given(not aligned or self.target_path is not None, "target_path", "given for aligned files")
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
        max_length_words: Longest side in words (a Han, kana or Hangul character counts as one); a side of
            more than 20 times as many characters is too long as well.
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
        space_after_marks: Put a space after opening brackets and quotation marks, slashes and dashes for the
            network, so that the words behind them have their usual pieces.
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
    space_after_marks: bool = False
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
        punctuated: A pair in brackets or quotation marks, alone or within another; two words with a slash.
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
    punctuated: Rate = 0.0
    copied: Rate = 0.0
    words: Rate = 0.0
    seed: Seed = 0

    @property
    def rates(self) -> dict[str, float]:
        """Expected copies per pair, by kind."""
        return {name: rate for name, rate in vars(self).items() if name not in ("words", "seed")}

    @property
    def is_on(self) -> bool:
        """Returns whether anything is added to a corpus."""
        return self.words > 0 or any(self.rates.values())


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ObjectiveConfig:
    """What training minimises.

    Attributes:
        label_smoothing: ε, the probability that is moved from the reference token to the others (Szegedy et
            al. 2015, https://arxiv.org/abs/1512.00567); 0 is plain cross entropy.
        r_drop: α, the weight of the divergence between two passes with different dropout (Liang et al. 2021,
            https://arxiv.org/abs/2106.14448, where 5 is best for translation). 0 makes one pass; other
            values double time and memory.
    """

    label_smoothing: Annotated[Number, Field(ge=0, le=0.99)] = 0.1
    r_drop: Annotated[Number, Field(ge=0, le=1000)] = 0.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class OptimisationConfig:
    """How the weights are updated.

    Attributes:
        learning_rate: Peak of the schedule (its factor for the `noam` schedule, 1 in the paper).
        beta1: Decay of AdamW's running mean of gradients.
        beta2: Decay of its running mean of squared gradients.
        epsilon: Added to AdamW's denominator.
        weight_decay: Decoupled decay of matrices (https://arxiv.org/abs/1711.05101); biases, norms
            and embeddings have none.
        clip_norm: Largest L2 norm of the gradient over all weights; 0 disables clipping.
        accumulate: Batches per update, shared by all processes; the gradient is that of one batch of all
            their pairs.
        ema_decay: Decay of an exponential moving average of the weights, which validation and checkpoints
            use; 0 disables it.
        average_last: Validate and save the mean of the weights at the last n validations; 0 disables it.
    """

    learning_rate: AboveZero = 1e-3
    beta1: Decay = 0.9
    beta2: Decay = 0.98
    epsilon: AboveZero = 1e-9
    weight_decay: FromZero = 0.01
    clip_norm: FromZero = 1.0
    accumulate: Positive = 1
    ema_decay: Decay = 0.0
    average_last: Count = 0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ScheduleConfig:
    """How the learning rate changes from step to step (s, counted from 1; w: warm-up steps).

    Attributes:
        form: `inverse_sqrt`: peak × sqrt(w / s); `noam`: factor × model_dim^−½ × min(s^−½, s × w^−1.5)
            (Vaswani et al. 2017, eq. 3), where optimisation.learning_rate is the factor;
            `cosine`: from the peak down to minimum_ratio × peak at total_steps; `constant`: the peak.
        warmup_steps: Steps over which the rate rises linearly from 0.
        total_steps: End of the cosine; 0 takes run.max_steps, or without that limit the first of
            run.max_minutes and run.max_epochs.
        minimum_ratio: Floor of the cosine, as a share of the peak.
    """

    form: ScheduleForm = "inverse_sqrt"
    warmup_steps: Count = 1000
    total_steps: Count = 0
    minimum_ratio: Share = 0.1

    def __post_init__(self) -> None:
        warms_up = self.form != "noam" or self.warmup_steps > 0
        require(warms_up, "warmup_steps", "at least 1 for noam", self.warmup_steps)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RunConfig:
    """One run: its folder, length and device. The first limit that is reached ends it.

    Attributes:
        folder: Where the run writes; it must not hold other files of the same names.
        seed: Seed of the initial weights, the dropout and the order of the data; below 2⁶³.
        max_steps: Most updates; 0 disables the limit.
        max_minutes: Most minutes of training, over all resumptions; 0 disables the limit.
        max_epochs: Most passes over the data; 0 disables the limit.
        save_every: Steps between saved states, from which `--resume` continues.
        log_every: Steps between lines of the log.
        start_from: Folder of a checkpoint with the initial weights. Its network must have the same shape; its
            vocabulary may differ.
        device: Where to compute; `auto` takes a GPU if there is one.
        precision: Number type of the matrix products; weights and optimiser stay in float32. `float16` needs
            CUDA.
        threads: Numeric threads on the CPU, at most 1024; 0 takes torch's default.
        compile: Use torch.compile.
        checkpoint_precision: Number type of the weights in checkpoints; float32 keeps every bit, int8 has a
            scale for each row of a matrix.
        plots: Write a report with pictures at the end (extra `train`); `dragoman report` writes it later.
        tensorboard: Write TensorBoard events (extra `train`).
    """

    folder: str = "runs/run"
    seed: Seed = 1
    max_steps: Count = 0
    max_minutes: Annotated[Number, Field(ge=0)] = 0.0
    max_epochs: Count = 0
    save_every: Positive = 500
    log_every: Positive = 20
    start_from: str | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Precision = "float32"
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    compile: bool = False
    checkpoint_precision: StorageType = "float32"
    plots: bool = True
    tensorboard: bool = False

    def __post_init__(self) -> None:
        require(bool(self.folder), "folder", "a path", self.folder)
        require(self.start_from != "", "start_from", "the folder of a checkpoint", self.start_from)
        limited = self.max_steps or self.max_minutes or self.max_epochs
        require(bool(limited), "max_steps", "above 0 (or max_minutes, or max_epochs)", self.max_steps)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ValidationConfig:
    """How the network is validated, and which checkpoints are kept.

    Attributes:
        every: Steps between validations; the run also ends with one.
        metric: Chooses the best checkpoint, and decides when to stop early.
        patience: Stop after this many validations without a better score; 0 never stops early.
        keep_best: Number of checkpoints kept in addition to `best` and `last`: those with the best scores.
        held_out: Without validation corpora, hold out one pair in a hundred of the training corpora, if
            that gives each direction at least 50; 1,000 are translated per direction unless
            `max_sentences` says otherwise.
        max_sentences: Most sentences translated per direction; 0 translates all.
        samples: Translations per direction that are written into the log.
        heat_maps: Sentences per direction whose attention the report shows.
        batch_tokens: Most tokens of a batch that measures the loss.
    """

    every: Positive = 1000
    metric: Metric = "bleu"
    patience: Count = 0
    keep_best: Count = 0
    held_out: bool = True
    max_sentences: Count = 0
    samples: Count = 3
    heat_maps: Count = 1
    batch_tokens: Annotated[int, Field(ge=4)] = 8192


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CardConfig:
    """The model card of the checkpoints.

    Attributes:
        name: Short name; letters, digits and `._+-`.
        version: Version of these weights, in the same characters.
        max_source_length: Most source tokens of a sentence, tag and EOS included.
        max_target_length: Most target tokens of a translation, EOS included.
        licence: Identifier of the licence of the weights, such as `cc-by-4.0`, which `GET /models` shows.
    """

    name: str = "dragoman"
    version: str = "1"
    max_source_length: Annotated[int, Field(ge=2)] = 256
    max_target_length: Positive = 256
    licence: str = ""


def value_kinds(hint: object) -> set[object]:
    """The types that an annotation allows, without None."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds: set[object] = set()
    for option in options:
        if get_origin(option) is Literal:
            kinds |= {type(choice) for choice in get_args(option)}
        else:
            kinds.add(get_origin(option) or option)
    return kinds - {NoneType}


def choices(hint: object) -> tuple[str, ...]:
    """The names that a Literal annotation allows; empty for other annotations."""
    return get_args(hint) if get_origin(hint) is Literal else ()


def field_docs(cls: type) -> dict[str, str]:
    """The text of each field in the "Attributes:" section of the class docstring, on one line."""
    _, _, section = (inspect.getdoc(cls) or "").partition("Attributes:\n")
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}
