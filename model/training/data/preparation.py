"""ⓐ–ⓓ Prepares the data of a run: tokenizer, token ids, held-out text."""

import dataclasses
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch

from model.evaluation import HeldOut
from model.files import write_text_atomically
from model.text.detection import are_exchanged
from model.text.tokenizer import Tokenizer
from model.training.config_sections import BatchConfig, CleaningConfig, CorpusConfig
from model.training.data.batches import Batch, BatchStream
from model.training.data.cleaning import CleaningReport, named_counts
from model.training.data.corpus import held_out_texts, read_pairs
from model.training.data.dataset import PairDataset
from model.training.data.tokenisation import data_fingerprint, directed_sentences, prepare
from model.training.data.vocabulary import train_tokenizer
from model.training.distributed.world import SINGLE_PROCESS, World
from model.training.run_folder.folder import RunFolder
from model.training.train_config import TrainConfig

logger = logging.getLogger(__name__)

_ANY_LENGTH = 2**31
_LEAST_HELD_OUT, _MOST_HELD_OUT = 50, 1000
_NO_CLEANING = CleaningConfig(
    max_length_tokens=_ANY_LENGTH,
    max_length_words=_ANY_LENGTH,
    max_length_ratio=_ANY_LENGTH,
    deduplicate=False,
    drop_copies=False,
    check_script=False,
)
"""Held-out text is not cleaned, so that scores do not depend on the cleaning."""


@dataclass(frozen=True)
class PreparedData:
    """The data of a run.

    Attributes:
        tokenizer: Trained, copied, or the one that the resumed run began with.
        pairs: Training pairs.
        held_out: Text that validations translate.
        held_out_pairs: All of that text as token ids, for the loss; None if there is none.
    """

    tokenizer: Tokenizer
    pairs: PairDataset
    held_out: tuple[HeldOut, ...]
    held_out_pairs: PairDataset | None

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints as `text_fingerprints` returns them."""
        datasets = {"train": self.pairs, "validation": self.held_out_pairs}
        return {name: dataset.index.fingerprint for name, dataset in datasets.items() if dataset is not None}


def prepare_data(
    config: TrainConfig, folder: RunFolder, *, keep_tokenizer: bool = False, world: World = SINGLE_PROCESS
) -> PreparedData:
    """Read, clean and tokenise the corpora of a run, or reuse what its folder holds.

    Args:
        config: The run's configuration.
        folder: The run's folder.
        keep_tokenizer: Use the tokenizer in the folder, because there are weights for it.
        world: The processes that prepare the folder. The first makes the tokenizer, all tokenise.

    Raises:
        CorpusError: If text is missing, unreadable or empty after cleaning; or if the folder was prepared
            from other text.
        TokenizerError: If a tokenizer cannot be read.
    """
    for corpus in (*config.corpora, *config.validation_corpora):
        _warn_of_exchange(corpus)
    held_out = held_out_texts(config.validation_corpora, config.validation.max_sentences)
    with world.main_process_first():
        if world.is_first and not keep_tokenizer:
            _make_tokenizer(config, folder)
        tokenizer = Tokenizer.load(folder.tokenizer)
    pairs = prepare(
        config.corpora,
        folder.tokenizer,
        config.cleaning,
        folder.data / "train",
        augmentation=config.augmentation,
        world=world,
    )
    logger.info("training on %d directed pairs; dropped: %s", len(pairs), named_counts(pairs.index.dropped))
    if pairs.index.augmented:
        logger.info("altered copies among them: %s", named_counts(pairs.index.augmented))
    held_out_pairs = None
    if config.validation_corpora:
        held_out_pairs = prepare(
            _held_out_corpora(config),
            folder.tokenizer,
            _held_out_cleaning(config),
            folder.data / "validation",
            world=world,
        )
        if held_out_pairs.index.dropped:
            dropped = named_counts(held_out_pairs.index.dropped)
            logger.warning("left out of the validation loss: %s", dropped)
    return PreparedData(tokenizer, pairs, held_out, held_out_pairs)


def with_held_out_text(config: TrainConfig) -> TrainConfig:
    """Returns the configuration with a part of the training corpora as validation corpora, if it has none.

    It is returned as it is if it holds nothing out, or if some direction would have too few sentences.

    Raises:
        CorpusError: If a corpus cannot be read.
    """
    if config.validation_corpora or not config.validation.held_out:
        return config
    if any(corpus.part != "all" for corpus in config.corpora):
        return config
    held_out = tuple(replace(corpus, part="held_out") for corpus in config.corpora)
    counts = Counter[tuple[str, str]]()
    for corpus in held_out:
        count = sum(1 for _ in islice(read_pairs(corpus), _LEAST_HELD_OUT))
        counts.update(dict.fromkeys(corpus.directions, count))
    if min(counts.values()) < _LEAST_HELD_OUT:
        logger.info("nothing is held out of so little text: without validation corpora there are no scores")
        return config
    logger.info("one pair in a hundred is held out for validation")
    training = tuple(replace(corpus, part="training") for corpus in config.corpora)
    limited = replace(config.validation, max_sentences=config.validation.max_sentences or _MOST_HELD_OUT)
    return replace(config, corpora=training, validation_corpora=held_out, validation=limited)


def text_fingerprints(config: TrainConfig, folder: RunFolder) -> dict[str, str]:
    """Fingerprints of the training and validation text, tokenised with the folder's tokenizer.

    Raises:
        CorpusError: If a file is missing or cannot be read.
    """
    train = data_fingerprint(config.corpora, folder.tokenizer, config.cleaning, config.augmentation)
    if not config.validation_corpora:
        return {"train": train}
    held_out = data_fingerprint(_held_out_corpora(config), folder.tokenizer, _held_out_cleaning(config))
    return {"train": train, "validation": held_out}


def _warn_of_exchange(corpus: CorpusConfig) -> None:
    """Warns if the sides of a corpus are clearly in each other's language."""
    languages = (corpus.source_language, corpus.target_language)
    if are_exchanged(read_pairs(corpus), languages):
        looks, given = " into ".join(reversed(languages)), " into ".join(languages)
        logger.warning("%s: looks like %s, but is given as %s", corpus.path, looks, given)


def _held_out_corpora(config: TrainConfig) -> list[CorpusConfig]:
    return [replace(corpus, weight=1.0) for corpus in config.validation_corpora]


def _held_out_cleaning(config: TrainConfig) -> CleaningConfig:
    return replace(_NO_CLEANING, max_length_tokens=config.network.longest or _ANY_LENGTH)


def _make_tokenizer(config: TrainConfig, folder: RunFolder) -> None:
    """Make the tokenizer, unless the folder has the one of an earlier preparation of the same text."""
    text = data_fingerprint(config.corpora, None, config.cleaning)
    origin = json.dumps({"text": text, "vocabulary": dataclasses.asdict(config.vocabulary)}, indent=2)
    note = folder.data / "tokenizer.json"
    if note.exists() and note.read_text(encoding="utf-8") == origin:
        logger.info("the tokenizer was made of the same text before")
        return
    logger.info("making the tokenizer")
    note.unlink(missing_ok=True)
    report = CleaningReport()
    train_tokenizer(
        directed_sentences(config.corpora, config.cleaning, report),
        config.vocabulary,
        target_languages=[target for _, target in config.pairs],
        folder=folder.tokenizer,
        report=report,
    )
    folder.data.mkdir(exist_ok=True)
    write_text_atomically(note, origin)


def one_pass(pairs: PairDataset | None, max_tokens: int, device: torch.device) -> Sequence[Batch]:
    """All pairs once, as batches on a device; a longer pair raises the budget."""
    if pairs is None:
        return []
    longest = int((pairs.sources.lengths + pairs.targets.lengths).max())
    stream = BatchStream(pairs, BatchConfig(max_tokens=max(max_tokens, longest), prefetch=0), seed=0)
    return [next(stream).to(device) for _ in range(stream.num_batches())]
