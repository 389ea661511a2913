"""A checkpoint's search, tuned on validation text, and its scores on the test sets, kept in the checkpoint.

Whatever is done is not done again, so that a scoring that was interrupted goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals.catalogue import Goal
from benchmarks.limited_run import Deadline
from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import record_evaluation
from model.cli.tune import LENGTH_PENALTIES
from model.evaluation.scores import score_translations
from model.training.config.data import CorpusConfig
from model.training.config.train_config import TrainConfig
from model.training.tuning import keep_best_search, searches, translate_with, try_searches
from model.training.validation import HeldOut, held_out_texts
from model.translation.translator import Translator

BEAM_SIZES = (4, 6, 8)

Evaluation = Mapping[str, Any]


def tune(
    folder: Path,
    config: TrainConfig,
    *,
    device: str,
    sentences: int = 0,
    beam_sizes: Sequence[int] = BEAM_SIZES,
    length_penalties: Sequence[float] = LENGTH_PENALTIES,
) -> None:
    """Give a checkpoint the search that has the best BLEU on its validation text, unless it has one.

    Args:
        folder: The checkpoint.
        config: Of its run; names the text.
        device: Where to translate.
        sentences: Of each direction; 0 for all.
        beam_sizes: To try.
        length_penalties: To try.
    """
    if "tuning" in load_checkpoint(folder).provenance:
        return
    translator = Translator.load(folder, device=device)
    texts = held_out_texts(config.validation_corpora, sentences)
    candidates = searches(translator.card.decoding, beam_sizes, length_penalties)
    trials = list(try_searches(texts, candidates, translate_with(translator)))
    files = [corpus.path for corpus in config.validation_corpora]
    keep_best_search(folder, translator.card, trials, "bleu", files)


def score(
    folder: Path, goals: Sequence[Goal], data: Path, *, device: str, deadline: Deadline
) -> Iterator[tuple[Goal, Evaluation]]:
    """Each goal's evaluation; fewer than all if the deadline comes.

    The text goes through the decoder as a user's does, sentence by sentence, with second attempts.
    """
    translator = Translator.load(folder, device=device)
    known = load_checkpoint(folder).provenance.get("evaluations")
    evaluations = known if isinstance(known, dict) else {}
    for goal in goals:
        found = evaluations.get(goal.name)
        if found is None or found["checksum"] != translator.checksum:
            if deadline.is_past:
                return
            found = _evaluation(translator, goal, data)
            record_evaluation(folder, goal.name, found)
        yield goal, found


def _evaluation(translator: Translator, goal: Goal, data: Path) -> Evaluation:
    text = _test_text(goal, data)
    translations = translator.translate(text.sources, source=goal.source, target=goal.target)
    scores = score_translations([each.text for each in translations], [text.references], goal.target)
    search = translator.card.decoding
    return {
        **vars(scores),
        "sentences": len(text.sources),
        "beam_size": search.beam_size,
        "length_penalty": search.length_penalty,
        "precision": translator.precision,
        "device": translator.device,
        "checksum": translator.checksum,
    }


def _test_text(goal: Goal, data: Path) -> HeldOut:
    """Of two aligned files, or of one with English in its first column."""
    files = [str(data / name) for name in goal.test]
    columns = (0, 1) if goal.source == "en" or len(files) > 1 else (1, 0)
    corpus = CorpusConfig(
        path=files[0],
        target_path=files[1] if len(files) > 1 else None,
        source_language=goal.source,
        target_language=goal.target,
        source_column=columns[0],
        target_column=columns[1],
    )
    (text,) = held_out_texts([corpus], max_sentences=0)
    return text
