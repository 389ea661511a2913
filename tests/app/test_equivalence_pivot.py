"""By way of another language, and at a second attempt, the service gives what Translators give."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from model.checkpoint.manifest import write_provenance
from model.translation.result import Diagnosis, Translation
from model.translation.translator import Translator
from tests.app.conftest import application, serving

pytestmark = pytest.mark.anyio
TEXTS = [
    "Bonjour.",
    "  Où est la gare ?  Le chat dort.\n\n\t- Merci. J'ai faim.",
    "",
    "Quelque chose qu'il n'a jamais lu !",
    "Привет. Le chien dort.",
]
# The tiny network has learnt six phrases by heart; of anything else it makes what it can.
STRANGE = [
    f"{start} {end}"
    for start in ("Where the dog", "I am a station", "Thank good cat", "sleeps sleeps")
    for end in ("is hungry morning.", "sleeps where you am?", "the the station the cat the dog.", "ssss hhhh")
]


def altered(folder: Path, copy: Path, tags: Mapping[str, str] | None = None, **card: object) -> Path:
    """A checkpoint of the same weights, of which the card says something else."""
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    config["card"] |= card
    (copy / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    tokenizer["tags"] = tags or tokenizer["tags"]
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    provenance = json.loads((copy / "provenance.json").read_text())
    write_provenance(copy, {key: value for key, value in provenance.items() if key != "files"})
    return copy


def inclined(folder: Path, copy: Path, **decoding: object) -> Path:
    """The same, with other decoding defaults."""
    card = json.loads((folder / "config.json").read_text())["card"]
    return altered(folder, copy, decoding=card["decoding"] | decoding)


async def test_two_checkpoints_give_what_they_give_one_after_the_other(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    """French into English, and that into a language that looks like French."""
    pairs = [("fr", "en")], [("en", "oc")]
    first = altered(tiny_checkpoint, tmp_path / "1", {"en": "<2en>"}, name="fr-en", pairs=pairs[0])
    second = altered(tiny_checkpoint, tmp_path / "2", {"oc": "<2fr>"}, name="en-oc", pairs=pairs[1])
    translators = [Translator.load(folder, device="cpu") for folder in (first, second)]
    between = [each.text for each in translators[0].translate(TEXTS, source="fr", target="en")]
    expected = [each.text for each in translators[1].translate(between, source="en", target="oc")]
    async with serving(application(first, second)) as client:
        together = await client.post("/translate", json={"q": TEXTS, "source": "fr", "target": "oc"})
        alone = [
            (await client.post("/translate", json={"q": text, "source": "fr", "target": "oc"})).json()
            for text in TEXTS
        ]
        languages = {each["code"]: each["targets"] for each in (await client.get("/languages")).json()}
    assert between[0] == "Good morning."
    assert expected[0] == "Bonjour."
    assert together.json()["translatedText"] == expected == [each["translatedText"] for each in alone]
    assert (together.json()["model"], together.json()["pivot"]) == ("fr-en>en-oc", "en")
    versions = [f"1+{translator.checksum[:8]}" for translator in translators]
    assert together.json()["model_version"] == ">".join(versions)
    assert versions[0] != versions[1]
    assert languages == {"fr": ["en", "oc"], "en": ["oc"], "oc": []}


@pytest.mark.parametrize(
    ("decoding", "kind", "kept"),
    [({"min_length": 24}, "loop", True), ({"max_length": 3}, "unfinished", False)],
)
async def test_second_attempts_are_those_of_the_translator(
    tiny_checkpoint: Path, tmp_path: Path, decoding: dict[str, object], kind: str, kept: bool
) -> None:
    folder = inclined(tiny_checkpoint, tmp_path / "inclined", **decoding)
    translations = Translator.load(folder, device="cpu").translate(STRANGE, source="en", target="fr")
    async with serving(application(folder)) as client:
        request = {"q": STRANGE, "source": "en", "target": "fr", "include": ["degeneration"]}
        body = (await client.post("/translate", json=request)).json()
        metrics = (await client.get("/metrics")).text
    assert body["translatedText"] == [translation.text for translation in translations]
    told = [each for details in body["details"] for each in details["degenerate"]]
    assert told == [diagnosis and vars(diagnosis) for diagnosis in diagnoses(translations)]
    broken = [each for each in told if each is not None]
    assert {"kind": kind, "retried": True, "kept": kept} in broken
    count = sum(each["kind"] == kind for each in broken)
    assert f'dragoman_degenerate_output_total{{kind="{kind}"}} {count}.0' in metrics


def diagnoses(translations: Sequence[Translation]) -> list[Diagnosis | None]:
    return [sentence.diagnosis for translation in translations for sentence in translation.sentences]


def test_a_translator_can_do_without_second_attempts(tiny_checkpoint: Path, tmp_path: Path) -> None:
    """By its own switch, and where options are given."""
    folder = inclined(tiny_checkpoint, tmp_path / "inclined", min_length=24)
    never = Translator.load(folder, device="cpu", retries=False)
    always = Translator.load(folder, device="cpu")
    once = never.translate(STRANGE, source="en", target="fr")
    told = always.translate(STRANGE, source="en", target="fr", options=always.card.decoding)
    twice = always.translate(STRANGE, source="en", target="fr")
    assert [each.text for each in told] == [each.text for each in once] != [each.text for each in twice]
    assert {diagnosis.retried for diagnosis in diagnoses(once) if diagnosis} == {False}
