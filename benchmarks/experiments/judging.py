"""A variant is trained and judged; what came out stays in its run's folder, so that nothing is done twice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.limited_run import Deadline, Ending, train
from model.errors import DivergenceError
from model.files import write_text_whole
from model.request import DecodeOptions
from model.training.config.train_config import TrainConfig
from model.training.report.log import Journal
from model.training.run_folder.folder import RunFolder
from model.training.tuning import translate_with, try_searches
from model.training.validation import held_out_texts
from model.translation.translator import Translator

_JUDGED = "judged.json"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How one run of a variant did with one search.

    Attributes:
        search: Its name; empty for the recipe's own.
        bleu: Mean over the directions.
        chrf: Likewise.
        scores: By direction, with signatures.
    """

    search: str
    bleu: float
    chrf: float
    scores: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of a variant.

    Attributes:
        variant: Its name.
        seed: Of the run.
        judgements: One a search; none if the run diverged.
        ending: How the run ended; None if it diverged.
        cross_entropy: −log P of the references a target token, in nats.
        failure: Why there is nothing to judge; empty otherwise.
    """

    variant: str
    seed: int
    judgements: Sequence[Judgement] = ()
    ending: Ending | None = None
    cross_entropy: float | None = None
    failure: str = ""


def run_variant(
    variant: str,
    config: TrainConfig,
    searches: Mapping[str, Mapping[str, Any]],
    *,
    sentences: int,
    device: str,
    deadline: Deadline,
) -> Outcome | None:
    """Train a variant as far as the deadline allows, and judge it by translating validation text.

    Args:
        variant: Its name.
        config: Of its run.
        searches: Decode options by name; empty for the recipe's own.
        sentences: Of each direction; 0 for all.
        device: Where to translate.
        deadline: After it nothing long is begun.

    Returns:
        None if there is more to do.
    """
    try:
        ending = train(config, deadline)
    except DivergenceError as error:  # a finding too: the other variants must still run
        return Outcome(variant=variant, seed=config.run.seed, failure=str(error))
    if ending is None or deadline.is_past:
        return None
    folder = RunFolder(Path(config.run.folder))
    wanted: Mapping[str, Mapping[str, Any]] = searches or {"": {}}
    question = {
        "step": ending.step,
        "sentences": sentences,
        "searches": {name: dict(values) for name, values in wanted.items()},
    }
    kept = folder.root / _JUDGED
    answer = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
    if answer is None or answer["question"] != question:
        judgements = _judge(folder.checkpoints / "last", config, wanted, sentences, device)
        answer = {"question": question, "judgements": [asdict(each) for each in judgements]}
        write_text_whole(kept, json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
    return Outcome(
        variant=variant,
        seed=config.run.seed,
        ending=ending,
        cross_entropy=Journal(folder.log).events("validation")[-1]["cross_entropy"],
        judgements=[Judgement(**each) for each in answer["judgements"]],
    )


def _judge(
    checkpoint: Path,
    config: TrainConfig,
    searches: Mapping[str, Mapping[str, Any]],
    sentences: int,
    device: str,
) -> list[Judgement]:
    translator = Translator.load(checkpoint, device=device)
    texts = held_out_texts(config.validation_corpora, sentences)
    options = [DecodeOptions.from_dict({**vars(config.decoding), **each}) for each in searches.values()]
    trials = try_searches(texts, options, translate_with(translator))
    return [
        Judgement(
            search=name,
            bleu=trial.score("bleu"),
            chrf=trial.score("chrf"),
            scores={"-".join(pair): vars(scores) for pair, scores in trial.scores.items()},
        )
        for name, trial in zip(searches, trials, strict=True)
    ]
