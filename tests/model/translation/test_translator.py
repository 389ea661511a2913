"""The synchronous translator: real translations, in order, the same in any company."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import dragoman
from model.checkpoint.folder import load_checkpoint
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.factory import torch_engine
from model.errors import CheckpointError, ConfigError, DecodingError, UnsupportedLanguageError
from model.translation.document_translation import with_alternatives
from model.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(tiny_checkpoint: Path) -> Translator:
    return Translator.load(tiny_checkpoint, device="cpu")


def test_it_translates_both_ways(translator: Translator, phrases: tuple[tuple[str, str], ...]) -> None:
    english, french = [en for en, _ in phrases], [fr for _, fr in phrases]
    assert translator.translate(english, source="en", target="fr") == french
    assert translator.translate(french, source="fr", target="en") == english


def test_one_text_gives_one_string(translator: Translator) -> None:
    translation = translator.translate("Thank you. The cat sleeps.", source="en", target="fr")
    assert isinstance(translation, str)
    assert translation == "Merci. Le chat dort."
    assert [each.source for each in translation.sentences] == ["Thank you.", "The cat sleeps."]
    assert translator.translate(["Thank you."], source="en", target="fr") == ["Merci."]
    assert json.dumps(translation) == '"Merci. Le chat dort."'
    assert translator.translate("", source="en", target="fr") == ""
    skipped: list[str] = []
    translator.translate("cat " * 70, source="en", target="fr", fields=["line 8"], too_long=skipped.append)
    assert skipped == ["line 8"]


def test_an_iterator_is_read_a_batch_at_a_time(translator: Translator) -> None:
    read: list[int] = []

    def lines() -> Iterator[str]:
        for number, line in enumerate(("Thank you.", "", "The cat sleeps.", "I am hungry.", "Thank you.")):
            read.append(number)
            yield line

    translations = translator.translate_iter(lines(), source="en", target="fr", batch_size=2)
    assert read == []
    assert next(translations) == "Merci."
    assert read == [0, 1]
    assert list(translations) == ["", "Le chat dort.", "J'ai faim.", "Merci."]


def test_what_is_no_text_is_named(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"a sequence of strings, but is int; see translate_iter"):
        translator.translate(5, source="en", target="fr")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"texts\[1\] must be a string, but is NoneType"):
        translator.translate(["Thank you.", None], source="en", target="fr")  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="batch_size"):
        next(translator.translate_iter(["Thank you."], source="en", target="fr", batch_size=0))


def test_it_describes_itself_in_a_line(translator: Translator) -> None:
    assert re.fullmatch(r"<Translator \S+ 1, 2 pairs, int8 on cpu>", repr(translator))


def test_the_public_api_is_the_translator() -> None:
    script = "import sys, dragoman; sys.exit(str([dragoman.Translator.__module__, 'torch' in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert run.stderr.strip() == "['model.translation.translator', False]"
    assert all(hasattr(dragoman, name) for name in dragoman.__all__)


def test_a_document_keeps_its_shape(translator: Translator) -> None:
    text = "\n  Thank you.  The cat sleeps.\r\n\r\n42\nI am hungry."
    translation = translator.translate([text], source="en", target="fr")[0]
    assert translation.text == "\n  Merci.  Le chat dort.\r\n\r\n42\nJ'ai faim."
    assert [sentence.source for sentence in translation.sentences] == [
        "Thank you.",
        "The cat sleeps.",
        "I am hungry.",
    ]
    assert -1 < (translation.score or 0) < 0


def test_blank_texts_and_one_s_own_language_come_back(translator: Translator) -> None:
    texts = ["", " \n", "Thank you."]
    assert translator.translate(texts, source="en", target="en") == texts
    assert translator.translate(texts, source="en", target="fr") == ["", " \n", "Merci."]
    assert translator.translate([], source="en", target="fr") == []


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_translation_does_not_depend_on_its_company(
    tiny_checkpoint: Path, phrases: tuple[tuple[str, str], ...], precision: str
) -> None:
    translator = Translator.load(tiny_checkpoint, device="cpu", precision=precision)
    texts = [en for en, _ in phrases] + ["The dog is hungry. Where is the cat?", "Good cat."]
    together = translator.translate(texts, source="en", target="fr")
    for text, translation in zip(texts, together, strict=True):
        alone = translator.translate([text], source="en", target="fr")[0]
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8"])
def test_every_precision_translates(
    tiny_checkpoint: Path, phrases: tuple[tuple[str, str], ...], precision: str
) -> None:
    translator = Translator.load(tiny_checkpoint, device="cpu", precision=precision)
    translations = translator.translate([en for en, _ in phrases], source="en", target="fr")
    assert translations == [fr for _, fr in phrases]
    assert translator.precision == precision


def test_alternatives_differ(translator: Translator) -> None:
    options = with_alternatives(DecodeOptions(), 3)
    translation = translator.translate(["Thank you."], source="en", target="fr", options=options)[0]
    assert translation.text == "Merci."
    everything = [translation.text, *translation.alternatives]
    assert len(everything) == len(set(everything)) > 1


def test_a_text_that_is_too_long_is_divided_or_skipped(translator: Translator) -> None:
    texts = ["cat " * 70 + "\n", "Thank you.\n", "dog " * 70]
    divided = translator.translate(texts, source="en", target="fr")
    assert [len(translation.sentences) > 1 for translation in divided] == [True, False, True]
    skipped: list[str] = []
    assert translator.translate(texts, source="en", target="fr", too_long=skipped.append) == [
        "\n",
        "Merci.\n",
        "",
    ]
    assert skipped == ["q[0]", "q[2]"]


def test_an_unknown_language_is_refused(translator: Translator) -> None:
    with pytest.raises(UnsupportedLanguageError, match="`target` must be one of fr"):
        translator.translate(["Thank you."], source="en", target="de")


def test_progress_counts_every_sentence(translator: Translator) -> None:
    done: list[int] = []
    texts = ["Thank you. Good morning.", "", "I am hungry."]
    translator.translate(texts, source="en", target="fr", progress=done.append)
    assert sum(done) == 3


def test_results_come_in_the_order_of_the_requests(translator: Translator) -> None:
    encode = translator.tokenizer.encode
    texts = ["Thank you.", "Where is the station?", "Good morning."]
    requests = [
        DecodeRequest(tuple(encode(text, target_language="fr")), translator.card.decoding) for text in texts
    ]
    decoded = [translator.tokenizer.decode(result[0].token_ids) for result in translator.decode(requests)]
    assert decoded == ["Merci.", "Où est la gare ?", "Bonjour."]


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_a_language_tag_is_never_produced(tiny_checkpoint: Path, strategy: str) -> None:
    """Not even by a network that wants nothing else, also once other sentences have left the batch."""
    checkpoint = load_checkpoint(tiny_checkpoint)
    tags = checkpoint.tokenizer.target_tag_ids
    network = checkpoint.network()
    logits = network.output.forward
    wanted = torch.zeros(checkpoint.config.target_vocab_size).index_fill(0, torch.tensor(tags), 100.0)
    network.output.forward = lambda states: logits(states) + wanted  # type: ignore[method-assign]
    ids = tuple(checkpoint.tokenizer.encode("Thank you.", target_language="fr"))
    requests = [DecodeRequest(ids, DecodeOptions(strategy=strategy, seed=1, max_length=n)) for n in (1, 6)]
    free, told = torch_engine(network), torch_engine(network, never_produced=tags)
    assert all(set(tags) & set(found[0].token_ids) for found in free.decode(requests))
    assert not any(set(tags) & set(found[0].token_ids) for found in told.decode(requests))


def test_a_loaded_translator_knows_its_tags(translator: Translator) -> None:
    """Giving a tag as the only way on leaves nothing to produce."""
    tokenizer = translator.tokenizer
    others = set(range(tokenizer.target_vocab_size)) - set(tokenizer.target_tag_ids)
    options = DecodeOptions(strategy="greedy", suppress_ids=tuple(others))
    ids = tuple(tokenizer.encode("Thank you.", target_language="fr"))
    assert len(tokenizer.target_tag_ids) == 2
    with pytest.raises(DecodingError, match="leave no token"):
        translator.decode([DecodeRequest(ids, options)])


def test_a_sentence_that_breaks_fails_the_call(translator: Translator) -> None:
    class Broken:
        def decode(
            self, requests: list[DecodeRequest], *, progress: object
        ) -> list[list[Hypothesis] | DecodingError]:
            return [DecodingError("not a number") for _ in requests]

    broken = dataclasses.replace(translator, engines=[Broken()])  # type: ignore[arg-type]
    with pytest.raises(DecodingError, match="not a number"):
        broken.translate(["Thank you."], source="en", target="fr")


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        Translator.load(tmp_path)
