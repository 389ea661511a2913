import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training.data.piece_dropout import ScoredPieces, finer_cuts

UNIGRAM = {4: ("a", -2.0), 5: ("b", -2.5), 6: ("c", -3.1), 7: ("ab", -3.0), 8: ("bc", -3.5), 9: ("abc", -4.2)}
BPE = {4: ("abc", -2.0), 5: ("ab", 0.0), 6: ("bc", -1.0), 7: ("a", -3.0), 8: ("b", -4.0), 9: ("c", -5.0)}


def spelt(pieces: ScoredPieces, ids: tuple[int, ...]) -> list[str]:
    return [pieces[id_][0] for id_ in ids]


def shares(pieces: ScoredPieces, piece: str) -> dict[str, float]:
    id_ = next(id_ for id_, (text, _) in pieces.items() if text == piece)
    return {"|".join(spelt(pieces, ids)): share for ids, share in finer_cuts(pieces)[id_]}


def test_cuts_of_a_unigram_model_are_as_likely_as_their_pieces() -> None:
    weights = {"a|b|c": -7.6, "ab|c": -6.1, "a|bc": -5.5}
    total = sum(math.exp(0.2 * score) for score in weights.values())
    expected = {cut: pytest.approx(math.exp(0.2 * score) / total) for cut, score in weights.items()}
    assert shares(UNIGRAM, "abc") == expected
    assert shares(UNIGRAM, "ab") == {"a|b": 1.0}


def test_merges_of_a_bpe_model_are_undone_from_the_last() -> None:
    """`ab` is merged first, so `abc` is never `a` and `bc`."""
    assert shares(BPE, "abc") == {"ab|c": 0.5, "a|b|c": 0.5}
    assert shares(BPE, "bc") == {"b|c": 1.0}


def test_what_cannot_be_cut_has_no_cuts() -> None:
    pieces = {4: ("a", -2.5), 5: ("▁xyz", -3.5), 6: ("ab", -4.5)}
    assert finer_cuts(pieces) == {}
    ranks = {4: ("abcd", -1.0), 5: ("ab", 0.0), 6: ("a", -2.0), 7: ("b", -3.0)}
    assert set(finer_cuts(ranks)) == {5}


@given(st.dictionaries(st.text("abc", min_size=1, max_size=8), st.floats(-9, -1), max_size=60))
def test_every_cut_spells_its_piece(scores: dict[str, float]) -> None:
    for pieces in (
        {id_: (piece, score - 0.01) for id_, (piece, score) in enumerate(scores.items())},
        {id_: (piece, -float(id_)) for id_, piece in enumerate(scores)},
    ):
        for id_, cuts in finer_cuts(pieces).items():
            assert sum(cut.probability for cut in cuts) == pytest.approx(1)
            assert len({cut.ids for cut in cuts}) == len(cuts) <= 16
            for cut in cuts:
                assert "".join(spelt(pieces, cut.ids)) == pieces[id_][0]
                assert len(cut.ids) > 1
