"""Self-test sentences: recorded if the network is sure of them, and compared by similarity."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from model.checkpoint.folder import load_checkpoint
from model.checkpoint.manifest import record
from model.checkpoint.self_test import (
    PLAIN_SENTENCES,
    PROVENANCE_KEY,
    SelfTestSentence,
    find_self_test,
    is_sure,
    plain_sentences,
    require_self_test,
    self_test_sentences,
)
from model.decode_request import DecodeRequest, Hypothesis
from model.errors import CheckpointError
from model.text.tokenizer import Tokenizer


def sentence(translation: str, source: str = "en", target: str = "fr") -> SelfTestSentence:
    return SelfTestSentence(
        source_language=source, target_language=target, source="a text", translation=translation
    )


def test_they_come_back_from_provenance_as_they_went() -> None:
    golden = (sentence("un texte"), sentence("ein Text", target="de"))
    assert self_test_sentences({PROVENANCE_KEY: [each.to_dict() for each in golden]}) == golden
    assert self_test_sentences({"steps": 7}) == ()


@pytest.mark.parametrize(
    "broken", [{}, "text", [1], [{}], [{**sentence("a").to_dict(), "source": 1}], [["a"]]]
)
def test_what_is_malformed_is_refused(broken: object) -> None:
    with pytest.raises(CheckpointError, match="`golden` must be a list of self-test sentences"):
        self_test_sentences({PROVENANCE_KEY: broken})


def test_equal_and_nearly_equal_translations_pass() -> None:
    golden = (sentence("Où est la gare ?"), sentence("J'ai faim."))
    require_self_test(golden, ["Où est la gare ?", "J'ai faim."])
    require_self_test(golden, ["Où se trouve la gare ?", "J'ai très faim."])


def test_other_translations_are_refused_by_direction() -> None:
    golden = (sentence("Où est la gare ?"), sentence("Where is it?", "fr", "en"))
    with pytest.raises(CheckpointError, match="self-test sentences fr-en are translated otherwise"):
        require_self_test(golden, ["Où est la gare ?", "é é é zut zut"])


def test_a_network_is_sure_where_no_token_has_a_rival() -> None:
    sure = Hypothesis((5, 6), -0.1, -0.3, (-0.1, -0.1, -0.1), finished=True)
    assert is_sure(sure)
    assert not is_sure(dataclasses.replace(sure, finished=False))
    assert not is_sure(dataclasses.replace(sure, token_log_probabilities=(-0.1, -0.7, -0.1)))


def test_recording_them_changes_nothing_but_provenance(folder: Path) -> None:
    before = load_checkpoint(folder)
    record(folder, PROVENANCE_KEY, [sentence("un texte").to_dict()])
    after = load_checkpoint(folder)
    assert after.checksum == before.checksum
    assert self_test_sentences(after.provenance) == (sentence("un texte"),)
    assert {**after.provenance, PROVENANCE_KEY: None} == {**before.provenance, PROVENANCE_KEY: None}


class Decoder:
    """Repeats its source with the given log-probabilities, and keeps the requests."""

    def __init__(self, *log_probabilities: float) -> None:
        self.requests: list[DecodeRequest] = []
        self._log_probabilities = log_probabilities

    def __call__(self, requests: Sequence[DecodeRequest]) -> list[list[Hypothesis]]:
        self.requests = list(requests)
        return [
            [Hypothesis(request.source_ids[1:-1], 0, 0, (log_probability,), finished=True)]
            for request, log_probability in zip(requests, self._log_probabilities, strict=True)
        ]


def test_only_what_is_sure_is_kept(tiny_tokenizer_folder: Path) -> None:
    tokenizer = Tokenizer.load(tiny_tokenizer_folder)
    decode = Decoder(-0.1, -2.0, -0.1)
    texts = {("en", "fr"): ("one", "two"), ("fr", "en"): ("three",)}
    found = find_self_test(tuple(texts), decode, tokenizer, texts=texts)
    assert [(each.source_language, each.target_language, each.source) for each in found] == [
        ("en", "fr", "one"),
        ("fr", "en", "three"),
    ]
    assert [each.translation for each in found] == ["one", "three"]
    assert {request.options.strategy for request in decode.requests} == {"greedy"}
    assert found[0].request(tokenizer) == decode.requests[0]


def test_a_sure_translation_that_no_reference_equals_is_left_out(tiny_tokenizer_folder: Path) -> None:
    decode = Decoder(-0.1, -0.1, -2.0)
    references = {("en", "fr"): {"one": {"other", "one"}, "two": {"deux"}, "three": {"three"}}}
    pairs = [("en", "fr"), ("fr", "en")]
    found = find_self_test(pairs, decode, Tokenizer.load(tiny_tokenizer_folder), references=references)
    assert [(each.source, each.translation) for each in found] == [("one", "one")]
    assert len(decode.requests) == 3


def test_without_texts_there_are_plain_ones() -> None:
    assert plain_sentences("pt-BR") == PLAIN_SENTENCES["pt"]
    assert plain_sentences("tlh") == ()
    assert {len(sentences) for sentences in PLAIN_SENTENCES.values()} == {4}
