"""Which plain sentences become golden ones."""

from collections.abc import Sequence
from pathlib import Path

from model.checkpoint.self_test import PLAIN_SENTENCES, find_self_test, plain_sentences
from model.request import DecodeRequest, Hypothesis
from model.text.tokenizer import Tokenizer


class Decoder:
    """Repeats its source, as sure as it is told to be.

    Attributes:
        requests: What it was asked.
    """

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
