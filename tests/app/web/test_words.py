"""What the words of a translation offer, documents, and speech."""

import re
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.app.web.conftest import Open
from tests.app.web.test_page import choose, expect_translation, write

# A browser with a French voice that notes what it is told to say.
VOICE = """
window.said = [];
speechSynthesis.getVoices = () => [{lang: "fr-FR"}];
speechSynthesis.speak = (utterance) => window.said.push([utterance.lang, utterance.text]);
"""


def translated(page: Page, text: str) -> None:
    choose(page, "en", "fr")
    write(page, text)
    expect(page.locator("#status")).to_contain_text("tiny")
    expect_translation(page, text.upper())


def test_pointing_at_a_word_marks_where_it_comes_from(page: Page) -> None:
    translated(page, "one two three")
    words = page.locator("#translation .word")
    expect(words).to_have_count(0)
    page.locator("#translation").hover()
    expect(words).to_have_text(["ONE", "TWO", "THREE"])
    words.nth(1).hover()
    expect(page.locator("#mirror mark")).to_have_text(["two"])
    assert page.locator("#mirror").inner_text().strip() == "one two three"
    page.locator("h1").hover()
    expect(page.locator("#mirror mark")).to_have_count(0)
    # The mark lies where the word is.
    sizes = (
        "element => [element.clientWidth, getComputedStyle(element).font, element.getBoundingClientRect().x]"
    )
    assert page.locator("#mirror").evaluate(sizes) == page.locator("#text").evaluate(sizes)


def test_a_word_that_all_words_attend_to_is_not_marked_for_others(page: Page) -> None:
    def attend(route: Route) -> None:
        if "alignment" not in route.request.post_data_json.get("include", []):
            route.continue_()
            return
        content = route.fetch().json()
        (detail,) = content["details"]
        rest = [0.0] * (len(detail["tokens"][0]["source"]) - 3)
        detail["alignment"] = [[[0.3, 0.1, 0.6, *rest], [0.0, 0.1, 0.9, *rest], [0.1, 0.4, 0.5, *rest]]]
        route.fulfill(json=content)

    page.route("**/translate", attend)
    translated(page, "one two three")
    page.locator("#translation").hover()
    page.locator("#translation .word").first.hover()
    expect(page.locator("#mirror mark")).to_have_text(["one"])


def test_another_word_is_chosen_and_the_rest_follows(page: Page) -> None:
    translated(page, "one two")
    page.locator("#translation").hover()
    page.locator("#translation .word", has_text="TWO").click()
    expect(page.get_by_role("menuitem")).to_have_text(["ONE"])
    page.keyboard.press("Enter")
    expect_translation(page, re.compile("ONE ONE"))
    expect(page.locator("#alternatives")).to_be_hidden()
    expect(page.locator("#translation")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#translation .word").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#alternatives")).to_have_text("No other word found")
    page.keyboard.press("Escape")
    expect(page.locator("#alternatives")).to_be_hidden()


def test_a_document_is_translated_and_saved(page: Page, tmp_path: Path) -> None:
    choose(page, "en", "de")
    source = tmp_path / "a letter.md"
    source.write_text("# one\n\ntwo `three`\n")
    with page.expect_download() as download:
        page.locator("#file").set_input_files(source)
    assert download.value.suggested_filename == "a letter.de.md"
    assert Path(download.value.path()).read_text() == "# ONE\n\nTWO `three`\n"
    expect(page.locator("#status")).to_have_text("Saved: a letter.md")
    expect(page.locator("#progress")).to_be_hidden()


def test_a_document_shows_its_progress_and_can_be_cancelled(page: Page, tmp_path: Path) -> None:
    choose(page, "en", "de")
    source = tmp_path / "long.txt"
    source.write_text("\n\n".join(f"paragraph {i}" for i in range(3000)))

    def half(route: Route) -> None:
        state = {"status": "translating", "translated_characters": 1, "total_characters": 2}
        route.fulfill(json=state | {"document_id": "x"})

    page.route(re.compile("/v2/document/[^/]+$"), half)
    page.locator("#file").set_input_files(source)
    expect(page.locator("#progress")).to_have_attribute("value", "0.5")
    with page.expect_response(re.compile("/cancel$")) as response:
        page.get_by_role("button", name="Cancel").click()
    assert response.value.ok
    expect(page.locator("#status")).to_have_text("Cancelled")
    expect(page.locator("#progress")).to_be_hidden()


def test_a_document_that_cannot_be_read_is_said(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("no archive")
    choose(page, "en", "de")
    page.locator("#file").set_input_files(tmp_path / "a.docx")
    expect(page.locator("#status")).to_have_text(re.compile("is not an archive"))
    (tmp_path / "a.exe").write_text("x")
    page.locator("#file").set_input_files(tmp_path / "a.exe")
    expect(page.locator("#status")).to_have_text(re.compile("ends in one of"))


def test_a_browser_with_a_voice_speaks(open_page: Open) -> None:
    page = open_page()
    translated(page, "one")
    expect(page.locator("#listen")).to_be_hidden()
    page.context.add_init_script(VOICE)
    again = open_page(base=page)
    expect_translation(again, "ONE")
    again.get_by_role("button", name="Listen").click()
    assert again.evaluate("window.said") == [["fr", "ONE"]]
    again.locator("#target").select_option("de")
    expect(again.locator("#listen")).to_be_hidden()
