"""The synchronous translator: real translations, in order, the same in any company."""

import dataclasses
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import dragoman
from model.checkpoint.folder import load_checkpoint
from model.config import TransformerConfig
from model.decode_request import DecodeOptions, DecodeRequest, Hypothesis
from model.decoding.engine import DecodingEngine
from model.decoding.factory import torch_engine
from model.errors import ConfigError, DecodingError, InputError
from model.translation.document_translation import with_alternatives
from model.translation.translator import Translator, decode_in_parallel
from tests.conftest import PHRASES
from tests.model.decoding.networks import PAD, request
from tests.model.decoding.scripted_runner import ScriptedRunner, echo


@pytest.fixture(scope="module")
def translator(tiny_checkpoint: Path) -> Translator:
    return Translator.load(tiny_checkpoint, device="cpu")


def test_it_translates_both_ways(translator: Translator) -> None:
    english, french = [en for en, _ in PHRASES], [fr for _, fr in PHRASES]
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


def test_blank_texts_and_one_s_own_language_come_back(translator: Translator) -> None:
    texts = ["", " \n", "Thank you."]
    assert translator.translate(texts, source="en", target="en") == texts
    assert translator.translate(texts, source="en", target="fr") == ["", " \n", "Merci."]
    assert translator.translate([], source="en", target="fr") == []


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_translation_does_not_depend_on_its_company(tiny_checkpoint: Path, precision: str) -> None:
    translator = Translator.load(tiny_checkpoint, device="cpu", precision=precision)
    texts = [en for en, _ in PHRASES] + ["The dog is hungry. Where is the cat?", "Good cat."]
    together = translator.translate(texts, source="en", target="fr")
    for text, translation in zip(texts, together, strict=True):
        alone = translator.translate([text], source="en", target="fr")[0]
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "int8"])
def test_every_precision_translates(tiny_checkpoint: Path, precision: str) -> None:
    translator = Translator.load(tiny_checkpoint, device="cpu", precision=precision)
    translations = translator.translate([en for en, _ in PHRASES], source="en", target="fr")
    assert translations == [fr for _, fr in PHRASES]
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


def test_several_threads_may_use_it(translator: Translator) -> None:
    texts = [[f"I have {i} cats.", "Thank you."] * 10 for i in range(8)]
    expected = [translator.translate(each, source="en", target="fr") for each in texts]
    with ThreadPoolExecutor(8) as threads:
        found = threads.map(lambda each: translator.translate(each, source="en", target="fr"), texts * 4)
    assert list(found) == expected * 4


def test_progress_counts_every_sentence(translator: Translator) -> None:
    done: list[int] = []
    texts = ["Thank you. Good morning.", "", "I am hungry."]
    translator.translate(texts, source="en", target="fr", progress=done.append)
    assert sum(done) == 3


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


def test_a_file_is_translated_with_its_layout(translator: Translator, tmp_path: Path) -> None:
    source, result = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# Thank you.\n\n- The cat\n  sleeps. Good morning.\n\n```\nThank you.\n```\n")
    done: list[int] = []
    translations = translator.translate_file(source, result, source="en", target="fr", progress=done.append)
    assert result.read_text() == "# Merci.\n\n- Le chat dort. Bonjour.\n\n```\nThank you.\n```\n"
    assert translations == ["Merci.", "Le chat dort. Bonjour."]
    assert sum(done) == 3
    buffer = io.BytesIO()
    translator.translate_file(str(source), buffer, source="en", target="fr")
    assert buffer.getvalue() == result.read_bytes()


def test_a_file_that_cannot_be_translated_leaves_nothing(translator: Translator, tmp_path: Path) -> None:
    for name, content in (("a.pdf", b"x"), ("a.docx", b"x"), ("a.srt", b"x")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="`file`"):
            translator.translate_file(tmp_path / name, tmp_path / "out", source="en", target="fr")
    assert not (tmp_path / "out").exists()


CONFIG = TransformerConfig(source_vocab_size=30, target_vocab_size=30, max_positions=16)


def engines(runners: Sequence[ScriptedRunner]) -> list[DecodingEngine]:
    return [DecodingEngine(runner, CONFIG) for runner in runners]


def asked(count: int) -> list[DecodeRequest]:
    return [request((4 + i, *[5] * (i % 9)), beam_size=1, max_length=1 + i % 3) for i in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 20])
@pytest.mark.parametrize("num_engines", [1, 3])
def test_the_order_is_that_of_the_requests(num_engines: int, count: int) -> None:
    requests, told = asked(count), list[int]()
    runners = [ScriptedRunner() for _ in range(num_engines)]
    results = decode_in_parallel(engines(runners), requests, told.append)
    assert results == [[echo(each.source_ids)] for each in requests]
    assert sum(told) == count
    assert sum(bool(runner.admitted) for runner in runners) == min(count, num_engines)


def test_each_gets_sentences_of_every_length() -> None:
    runners = [ScriptedRunner(), ScriptedRunner()]
    decode_in_parallel(engines(runners), asked(18))
    totals = [sum(s.source_length for batch in runner.admitted for s in batch) for runner in runners]
    assert sum(totals) == 2 * sum(range(1, 10))
    assert abs(totals[0] - totals[1]) <= 9


def test_a_bad_request_fails_alone() -> None:
    bad, good = request((PAD,)), asked(1)[0]
    first, second, third = decode_in_parallel(
        engines([ScriptedRunner(), ScriptedRunner()]), [good, bad, good]
    )
    assert first == third == [echo(good.source_ids)]
    assert isinstance(second, InputError)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_failure_of_one_ends_all_and_leaves_them_usable(broken: int) -> None:
    runners = [ScriptedRunner(max_rows=1), ScriptedRunner(max_rows=1)]
    runners[broken].broken = ("advance", 5)
    both = engines(runners)
    with pytest.raises(RuntimeError, match="out of luck"):
        decode_in_parallel(both, asked(25))
    assert all(engine.is_idle for engine in both)
    runners[broken].broken = None
    assert len(decode_in_parallel(both, asked(5))) == 5


def test_whoever_watches_can_break_it_off() -> None:
    def give_up(_: int) -> None:
        raise KeyboardInterrupt

    both = engines([ScriptedRunner(max_rows=1), ScriptedRunner(max_rows=1)])
    with pytest.raises(KeyboardInterrupt):
        decode_in_parallel(both, asked(10), give_up)
    assert all(engine.is_idle for engine in both)
