"""⑤ Which sentences share a batch: of one width in lanes, near in length, within a token budget."""

from collections.abc import Iterable, Sequence

from model.decoding.sentence import Sentence


def plan_batches(sentences: Iterable[Sentence], max_batch_tokens: int) -> list[list[Sentence]]:
    """Split sentences into batches, the longest first, so that memory peaks at once or never.

    All sentences of a batch occupy the same number of lanes: the grid slots × lanes has no holes.

    Args:
        sentences: Any mix of options.
        max_batch_tokens: Bound on rows × source tokens, padding charged; a sentence over it is a
            batch of its own.
    """
    ordered = sorted(sentences, key=lambda s: (-s.options.lanes, -s.source_length))
    batches: list[list[Sentence]] = []
    for sentence in ordered:
        if not batches or not _fits(batches[-1], sentence, max_batch_tokens):
            batches.append([])
        batches[-1].append(sentence)
    return batches


def _fits(batch: Sequence[Sentence], sentence: Sentence, max_batch_tokens: int) -> bool:
    lanes, padded_length = batch[0].options.lanes, batch[0].source_length
    cost = (len(batch) + 1) * lanes * padded_length
    return sentence.options.lanes == lanes and cost <= max_batch_tokens
