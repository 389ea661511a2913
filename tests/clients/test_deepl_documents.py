"""Documents through DeepL's own package, unchanged."""

import io
from pathlib import Path

import deepl
import pytest

from tests.app.remote import Live
from tests.clients.conftest import connect


def test_a_document_from_file_to_file(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: None)
    source, result = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# one\n\n[two](x.md) `three`\n", "utf-8")
    status = connect(live).translate_document_from_filepath(
        source, result, source_lang="EN", target_lang="FR"
    )
    assert status.done
    assert result.read_text("utf-8") == "# ONE\n\n[TWO](x.md) `three`\n"


def test_a_document_in_memory_and_its_failure(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepl.translator.time.sleep", lambda _: None)
    client, output = connect(live), io.BytesIO()
    client.translate_document("one", output, source_lang="EN", target_lang="FR", filename="a.txt")
    assert output.getvalue() == b"ONE"
    with pytest.raises(deepl.DocumentTranslationException, match="archive"):
        client.translate_document(b"one", output, source_lang="EN", target_lang="FR", filename="a.docx")
    with pytest.raises(deepl.DeepLException, match=r"\.exe|ends in"):
        client.translate_document_upload(b"one", target_lang="FR", filename="a.exe")
    with pytest.raises(deepl.DeepLException, match="rephras"):
        client.rephrase_text("one", target_lang="EN-GB")
