"""The page on small screens, in the dark, by keyboard, with a screen reader and in five languages."""

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize, expect

from tests.app.remote import Live
from tests.app.web.conftest import Open
from tests.app.web.test_page import write

CONTROLS = ("source", "swap", "target", "translate", "clear", "copy", "link")
SIZES: dict[str, ViewportSize] = {
    "phone": {"width": 320, "height": 640},
    "desk": {"width": 1280, "height": 800},
}


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


# Contrast depends on the colours alone, and what overlaps on the size alone.
@pytest.mark.parametrize(("size", "scheme"), [("phone", "light"), ("desk", "dark")])
def test_nothing_keeps_anybody_out(page: Page, scheme: Literal["light", "dark"], size: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(SIZES[size])
    page.reload()
    expect(page.locator("#target option")).not_to_have_count(0)
    assert violations(page) == []
    write(page, "Good morning. Where is the station?\n\nThank you.")
    expect(page.locator("#translation")).to_have_text("GOOD MORNING. WHERE IS THE STATION?\n\nTHANK YOU.")
    page.locator("#access summary").click()
    assert violations(page) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, background[4:-1].split(","))) / 3
    assert (brightness > 128) == (scheme == "light")
    page.locator("#access summary").click()
    assert_controls_stay_in_view(page, **SIZES[size])


def assert_controls_stay_in_view(page: Page, width: int, height: int) -> None:
    """They stand beside a long text."""
    page.route("**/translate", lambda route: route.fulfill(json={"translatedText": "WORD " * 2000}))
    write(page, "word " * 2000)
    expect(page.locator("#translation")).to_have_text("WORD " * 2000)
    expect(page.locator("#count")).to_contain_text("10000 / ")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#text").scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, 0)")
    for name in CONTROLS:
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["x"] >= 0, name
        assert box["x"] + box["width"] <= width, name
        assert box["y"] + box["height"] <= height, name


def test_everything_works_by_keyboard(page: Page) -> None:
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("one two")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#translation")).to_have_text("ONE TWO")
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.localName"))
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert reached[-1] == "body" or width >= 2
    assert {*CONTROLS, "text", "summary", "a"} <= set(reached)
    page.locator("#swap").press("Enter")
    expect(page.locator("#text")).to_have_value("ONE TWO")
    page.locator("#clear").press("Space")
    expect(page.locator("#text")).to_be_focused()


def test_screen_readers_are_told_the_language_and_the_progress(page: Page) -> None:
    page.locator("#source").select_option("en")
    page.locator("#target").select_option("de")
    write(page, "one two")
    expect(page.locator("#translation")).to_have_text("ONE TWO")
    expect(page.locator("#translation")).to_have_attribute("lang", "de")
    expect(page.locator("#form")).to_have_attribute("aria-busy", "false")
    expect(page.get_by_role("status", name="Translation")).to_have_text("ONE TWO")
    expect(page.locator("p[role=status]")).to_contain_text("tiny")


@pytest.mark.parametrize(
    ("locale", "language", "translate", "detected"),
    [
        ("fr-CA", "fr", "Traduire", "anglais détecté"),
        ("zh-CN", "zh", "翻译", "英语"),
        ("pt-BR", "en", "Translate", "English detected"),
    ],
)
def test_it_speaks_the_language_of_the_browser(
    open_page: Open, locale: str, language: str, translate: str, detected: str
) -> None:
    page = open_page(locale=locale)
    expect(page.locator("html")).to_have_attribute("lang", language)
    expect(page.locator("#translate")).to_have_text(translate)
    write(page, "Where is the station, please?")
    expect(page.locator("#status")).to_contain_text(detected)


def test_the_documentation_is_drawn(page: Page, service: Live) -> None:
    page.goto(service.url + "docs")
    expect(page.locator("h1, h2").first).to_contain_text("Dragoman")
    page.locator("#operations-translation-translate, .opblock-post").first.click()
    expect(page.get_by_role("button", name="Try it out")).to_be_visible()
