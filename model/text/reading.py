"""③ What the network is given of a sentence, and whether that was other letters than the text's."""

from collections.abc import Sequence

from model.text.capitals import as_read, as_small_word, is_capitalised_word
from model.text.normalisation import clean
from model.text.tokenizer import Tokenizer


def source_ids(sentence: str, pair: tuple[str, str], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of a sentence, in small letters where it is in capitals.

    A lone word with a first capital loses it where the vocabulary has the word as one piece without it, but
    not with it: `Cancel` is then read as `cancel`, while `Paris`, which is one piece as it stands, and
    `Bilbao`, which is none either way, stay.

    Args:
        sentence: As it stands in the text.
        pair: Codes of its language and of the one it is to become.
        tokenizer: Of the checkpoint.
    """
    source, target = pair
    sentence = clean(sentence)
    ids = tokenizer.encode(as_read(sentence, source), target_language=target)
    if is_capitalised_word(sentence):
        small = tokenizer.encode(as_small_word(sentence, source), target_language=target)
        length_of_one_piece = len(tokenizer.encode("", target_language=target)) + 1
        if len(small) == length_of_one_piece < len(ids):
            return tuple(small)
    return tuple(ids)


def was_read_small(sentence: str, target: str, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    """Whether `source_ids` took a first capital from a lone word.

    Args:
        sentence: As it stood in the text.
        target: Language it is translated into.
        ids: What `source_ids` gave.
        tokenizer: The same.
    """
    sentence = clean(sentence)
    return is_capitalised_word(sentence) and tokenizer.encode(sentence, target_language=target) != list(ids)
