import pytest
import torch

from model.decoding.pytorch.score import score_translations
from model.errors import DecodingError, InputError, TextTooLongError
from tests.model.decoding.networks import EOS, PAD, VOCAB, TableNetwork, lively_network, sentences
from tests.model.decoding.reference import ReferenceDecoder

SOURCES = sentences(4, 9, 2, 6)
TARGETS = [(5, 6, EOS), (EOS,), (7, 8, 9, 10, 11), ()]


@pytest.mark.parametrize("max_batch_tokens", [1, 12, 4096])
def test_scores_are_those_of_one_token_after_another(max_batch_tokens: int) -> None:
    network = lively_network()
    scores = score_translations(network, SOURCES, TARGETS, max_batch_tokens=max_batch_tokens)
    reference = ReferenceDecoder(network)
    for source, target, found in zip(SOURCES, TARGETS, scores, strict=True):
        expected = [reference.log_probs(source, target[:t])[token] for t, token in enumerate(target)]
        assert found == pytest.approx(expected, abs=1e-4)


def test_probabilities_of_all_translations_sum_to_one() -> None:
    network = TableNetwork({2: {4: 0.5, 5: 0.25, EOS: 0.25}, 5: {4: 0.5, EOS: 0.5}})
    targets = [(EOS,), (4, EOS), (5, EOS), (5, 4, EOS)]
    scores = score_translations(network, [(4, EOS)] * 4, targets)
    probabilities = [torch.tensor(row).sum().exp().item() for row in scores]
    assert probabilities == pytest.approx([0.25, 0.5, 0.125, 0.125])


def test_nothing_scores_nothing() -> None:
    assert score_translations(lively_network(), [], []) == []


def test_sources_and_targets_come_in_pairs() -> None:
    with pytest.raises(InputError, match="`targets` must be 2"):
        score_translations(lively_network(), [(4,), (5,)], [(4,)])


@pytest.mark.parametrize(
    ("source", "target", "kind", "words"),
    [
        ((), (EOS,), InputError, "source_ids"),
        ((4,), (VOCAB,), InputError, "targets"),
        ((4,), (PAD,), InputError, "targets"),
        ((4,), (5,) * 17, TextTooLongError, "`targets` is over the limit max_positions: 17, at most 16"),
    ],
)
def test_what_the_network_cannot_read_is_refused(
    source: tuple[int, ...], target: tuple[int, ...], kind: type[InputError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        score_translations(lively_network(), [source], [target])


def test_numbers_that_break_are_an_error() -> None:
    network = lively_network()
    with torch.no_grad():
        network.output.bias[5] = torch.nan
    with pytest.raises(DecodingError, match="not a number"):
        score_translations(network, [(4, EOS)], [(5, EOS)])
