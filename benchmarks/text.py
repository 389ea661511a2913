"""A user's text as engines get it, and BLEU of what they make of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine import Ids, Translations
from model.checkpoint.folder import Checkpoint
from model.errors import InputError
from model.evaluation.scores import score_translations
from model.training.data.corpus import read_lines

SENTENCES = Path(__file__).with_name("sentences.en-fr.tsv")
"""Everyday sentences of 5 to 100 tokens with their translations, written for these benchmarks."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Sentences as token ids, the longest first, and their references.

    Attributes:
        checkpoint: Whose tokenizer cut them.
        target: Language to translate into.
        sources: Token ids, tag and EOS included.
        references: In the same order; empty where there are none.
    """

    checkpoint: Checkpoint
    target: str
    sources: Sequence[Ids]
    references: Sequence[str]

    def bleu(self, translations: Translations) -> float:
        """SacreBLEU of detokenised translations."""
        texts = [self.checkpoint.tokenizer.decode(ids) for ids in translations]
        return score_translations(texts, [self.references], self.target).bleu


def read_text(
    checkpoint: Checkpoint, source_file: Path, reference_file: Path | None, target: str, limit: int
) -> Text:
    """Lines of a file, spread over all of it, that the checkpoint's limit allows.

    Args:
        checkpoint: What is to translate them.
        source_file: A sentence a line, or source and reference separated by a tab; plain or .gz.
        reference_file: A reference a line; None takes the second column, if there is one.
        target: Language to translate into.
        limit: Most sentences.

    Raises:
        CorpusError: If a file cannot be read.
        InputError: If there is no sentence, or there are not as many references.
    """
    pairs = _pairs(source_file, reference_file)
    tokenizer = checkpoint.tokenizer
    cut = [
        (tuple(tokenizer.encode(source, target_language=target)), reference)
        for source, reference in pairs[:: max(1, len(pairs) // limit)][:limit]
    ]
    fitting = [pair for pair in cut if len(pair[0]) <= checkpoint.card.max_source_length]
    if not fitting:
        raise InputError("the text must hold at least one sentence", "source-file")
    fitting.sort(key=lambda pair: -len(pair[0]))
    references = [reference for _, reference in fitting if reference is not None]
    return Text(
        checkpoint=checkpoint,
        target=target,
        sources=[ids for ids, _ in fitting],
        references=references if len(references) == len(fitting) else [],
    )


def _pairs(source_file: Path, reference_file: Path | None) -> list[tuple[str, str | None]]:
    lines = list(read_lines(source_file))
    if reference_file is None:
        columns = (line.split("\t") for line in lines if line.strip())
        return [(row[0], row[1] if len(row) > 1 else None) for row in columns]
    references = list(read_lines(reference_file))
    if len(references) != len(lines):
        raise InputError(f"there are {len(lines)} sentences, but {len(references)} references", "references")
    return [pair for pair in zip(lines, references, strict=True) if pair[0].strip()]
