"""Files from Python: translated like their texts, with their layout."""

import io
from pathlib import Path

import pytest

from model.errors import InputError
from model.translation.translator import Translator


@pytest.fixture(scope="module")
def translator(tiny_checkpoint: Path) -> Translator:
    return Translator.load(tiny_checkpoint, device="cpu")


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


def test_markup_and_subtitles(translator: Translator, tmp_path: Path) -> None:
    for name, text, expected in (
        ("a.html", "<p>Thank\nyou.<pre>Thank you.</pre>", "<p>Merci.<pre>Thank you.</pre>"),
        (
            "a.srt",
            "1\n00:00:01,000 --> 00:00:02,000\nThank you.\n",
            "1\n00:00:01,000 --> 00:00:02,000\nMerci.\n",
        ),
    ):
        (tmp_path / name).write_text(text)
        translator.translate_file(tmp_path / name, tmp_path / f"b-{name}", source="en", target="fr")
        assert (tmp_path / f"b-{name}").read_text() == expected


def test_a_file_that_cannot_be_translated_leaves_nothing(translator: Translator, tmp_path: Path) -> None:
    for name, content in (("a.pdf", b"x"), ("a.docx", b"x"), ("a.srt", b"x")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="`file`"):
            translator.translate_file(tmp_path / name, tmp_path / "out", source="en", target="fr")
    assert not (tmp_path / "out").exists()
