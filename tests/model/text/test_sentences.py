import pytest
import sentencex

from model.text.sentences import sentence_ends


def split(text: str, language: str) -> list[str]:
    ends = sentence_ends(text, language)
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Mr. Smith paid $3.50 at 5 p.m. on Monday. ", "Really? ", "(Yes.)"]),
        ("en", ["hello. ", "how are you? ", "fine"]),
        ("en", ['He said: "Stop!" and left. ', "We saw README.Md and x.org/?Q=1 there. ", "Wait!", "Stop!"]),
        ("fr", ["J'ai vu M. Dupont, M.\xa0Durand et Mlle. Petit. ", "Ça va ? ", "J.-C. est né."]),
        ("fr", ["« Très bien ! » dit-elle. ", "Fin."]),
        ("de", ["Am 20. Dezember beginnt das 6. Treffen. ", "Dr. Weiß kommt z.B. auch. ", "Gut."]),
        ("cs", ["Přišla 5. května s A. Novákem. ", "Konec."]),
        ("es", ["¿Qué tal? ", "¡Hola, Sr. Ruiz! ", "Adiós."]),
        ("zh", ["你好。", "增长了2.5％、３.２％！", "他说：“我很好。”", "Hello. ", "再见"]),
        ("ja", ["こんにちは。", "「元気ですか？」と聞いた。", "はい！"]),
        ("hi", ["नमस्ते। ", "ठीक।"]),
        ("qqq", ["One. ", "Two."]),
        ("", ["One. ", "Two."]),
        ("en", ["no end"]),
        ("en", ["\ud800 One. ", "\udfff Two."]),
    ],
)
def test_sentences_end_where_readers_think_they_do(language: str, sentences: list[str]) -> None:
    assert split("".join(sentences), language) == sentences


def test_a_long_line_is_split_as_its_parts_are() -> None:
    sentences = [f"Mr. Smith has {n} cats in the house, and café number {n}.5 is open. " for n in range(200)]
    assert split("".join(sentences), "en") == sentences


def test_a_sentence_longer_than_a_window_stays_whole() -> None:
    long = "word " * 1000 + "end. "
    assert split(f"Short. {long}Short.", "en") == ["Short. ", long, "Short."]


def test_a_splitter_that_alters_its_text_alters_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencex, "segment", lambda _language, _text: ["One.", "not there", "Two."])
    assert split("One.  Two.  three", "en") == ["One.", "  Two.", "  three"]
