"""What a person does on the page, from the first letter to the copied translation."""

import json
import re
import string

from playwright.sync_api import Page, Request, Route, expect

from tests.app.remote import Live
from tests.app.web.conftest import Open

# Notes every state of the translation with its language.
RECORD = """() => {
  window.shown = [];
  const output = document.getElementById("translation");
  const note = () => window.shown.push([output.lang, output.textContent]);
  const all = {childList: true, characterData: true, subtree: true, attributes: true};
  new MutationObserver(note).observe(output, all);
}"""

# Keeps the page's timers, [delay in milliseconds, function] by number, until the test runs them.
TIMERS_BY_HAND = """() => {
  window.timers = new Map();
  let number = 1_000_000;
  window.setTimeout = (run, delay) => (timers.set(++number, [delay, run]), number);
  window.clearTimeout = (timer) => timers.delete(timer);
}"""


def requests_of(page: Page) -> list[dict[str, str]]:
    """The translation requests of a page, from now on."""
    sent: list[dict[str, str]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/translate"):
            sent.append(json.loads(request.post_data or "{}"))

    page.on("request", note)
    return sent


def choose(page: Page, source: str, target: str) -> None:
    page.locator("#source").select_option(source)
    page.locator("#target").select_option(target)


def write(page: Page, text: str) -> None:
    """Write a text, and ask for its translation without a pause."""
    page.locator("#text").fill(text)
    page.locator("#text").press("Control+Enter")


def expect_translation(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator("#translation")).to_have_text(text)


def test_a_pause_in_typing_translates(page: Page) -> None:
    choose(page, "en", "fr")
    page.evaluate(TIMERS_BY_HAND)
    sent = requests_of(page)
    page.locator("#text").press_sequentially("one two")
    assert page.evaluate("[...timers.values()].map(([delay]) => delay)") == [400]
    assert sent == []
    page.evaluate("for (const [, run] of timers.values()) run()")
    expect_translation(page, "ONE TWO")
    assert [each["q"] for each in sent] == ["one two"]


def test_a_translation_grows_before_it_is_done(page: Page) -> None:
    choose(page, "en", "fr")
    page.evaluate(RECORD)
    text = " ".join(f"word{letter}" for letter in string.ascii_lowercase)
    write(page, text)
    expect_translation(page, text.upper())
    grown = [shown for _, shown in page.evaluate("window.shown") if shown]
    assert len(set(grown)) > 1
    assert all(text.upper().startswith(each) for each in grown)


def test_a_new_text_ends_the_request_of_the_last(page: Page) -> None:
    choose(page, "en", "fr")
    # The first one is never answered.
    page.route("**/translate", lambda route: None if "slow" in route.request.post_data else route.continue_())
    with page.expect_event("request", lambda request: request.url.endswith("/translate")):
        write(page, "slow")
    with page.expect_event("requestfailed") as failed:
        write(page, "quick")
    assert failed.value.failure == "net::ERR_ABORTED"
    expect_translation(page, "QUICK")


def test_changing_a_language_translates_anew_and_hides_the_old_translation(page: Page) -> None:
    choose(page, "en", "fr")
    write(page, "one two")
    expect_translation(page, "ONE TWO")
    page.evaluate(RECORD)
    sent = requests_of(page)
    page.locator("#target").select_option("de")
    expect(page.locator("#translation")).to_have_attribute("lang", "de")
    expect_translation(page, "ONE TWO")
    assert [each["target"] for each in sent] == ["de"]
    assert ["fr", "ONE TWO"] not in page.evaluate("window.shown")
    page.locator("#source").select_option("fr")
    expect(page.locator("#status")).to_contain_text("tiny")
    assert [each["source"] for each in sent] == ["en", "fr"]


def test_an_answer_that_comes_too_late_is_never_shown(page: Page) -> None:
    choose(page, "en", "fr")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if json.loads(route.request.post_data or "{}")["q"] == "first":
            held.append(route)
        else:
            route.continue_()

    page.route("**/translate", hold)
    page.evaluate(RECORD)
    with page.expect_request("**/translate"):
        write(page, "first")
    write(page, "second")
    expect_translation(page, "SECOND")
    held[0].fulfill(json={"translatedText": "FIRST"})
    write(page, "third")
    expect_translation(page, "THIRD")
    assert "FIRST" not in [shown for _, shown in page.evaluate("window.shown")]


def test_swapping_translates_back(page: Page) -> None:
    choose(page, "en", "fr")
    write(page, "one two")
    expect_translation(page, "ONE TWO")
    with page.expect_request("**/translate") as request:
        page.get_by_role("button", name="Swap languages").click()
    expect(page.locator("#text")).to_have_value("ONE TWO")
    expect(page.locator("#source")).to_have_value("fr")
    expect(page.locator("#target")).to_have_value("en")
    expect(page.locator("#translation")).to_have_attribute("lang", "en")
    sent = json.loads(request.value.post_data or "{}")
    assert sent.items() >= {"q": "ONE TWO", "source": "fr", "target": "en"}.items()


def test_copying_takes_the_translation_and_clearing_empties_both_sides(page: Page) -> None:
    choose(page, "en", "fr")
    write(page, "one two")
    expect_translation(page, "ONE TWO")
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "ONE TWO"
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#text")).to_be_focused()
    expect_translation(page, "")
    expect(page.get_by_role("button", name="Copy")).to_be_disabled()


def test_a_link_carries_the_text_where_no_server_sees_it(page: Page, open_page: Open) -> None:
    choose(page, "en", "de")
    write(page, "salt & pepper")
    expect_translation(page, "SALT & PEPPER")
    page.get_by_role("button", name="Link").click()
    expect(page.locator("#status")).to_have_text("Link copied")
    address, _, fragment = page.evaluate("navigator.clipboard.readText()").partition("#")
    assert "salt" not in address
    other = open_page("#" + fragment)
    expect_translation(other, "SALT & PEPPER")
    assert other.locator("#target").input_value() == "de"


def test_languages_and_text_are_remembered(page: Page, open_page: Open) -> None:
    choose(page, "en", "de")
    write(page, "one two")
    expect_translation(page, "ONE TWO")
    again = open_page(base=page)
    expect_translation(again, "ONE TWO")
    assert (again.locator("#source").input_value(), again.locator("#target").input_value()) == ("en", "de")
    assert again.locator("#text").input_value() == "one two"


def test_a_text_in_the_target_language_is_translated_into_another(page: Page) -> None:
    choose(page, "auto", "de")
    page.locator("#target").select_option("fr")
    write(page, "Bonjour, où est la gare, s'il vous plaît ? Je suis perdu.")
    expect(page.locator("#target")).to_have_value("de")
    expect_translation(page, re.compile("BONJOUR"))
    expect(page.locator("#status")).to_contain_text("French detected")


def test_a_language_that_nobody_translates_is_said(page: Page) -> None:
    choose(page, "auto", "fr")
    write(page, "Где находится железнодорожный вокзал? Я заблудился.")
    expect(page.locator("#status")).to_have_text("No model here translates this language.")
    expect_translation(page, "")


def test_a_missing_key_opens_its_field(open_page: Open, guarded: Live) -> None:
    page = open_page(live=guarded)
    write(page, "one two")
    expect(page.locator("#status")).to_have_text("Enter an API key.")
    expect(page.locator("#key")).to_be_focused()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_have_text("This API key is not valid.")
    page.locator("#key").fill("sesame")
    page.keyboard.press("Enter")
    expect_translation(page, "ONE TWO")
    again = open_page(live=guarded, base=page)
    expect_translation(again, "ONE TWO")


def test_what_a_proxy_says_is_not_shown_and_errors_of_the_service_are_said_for_people(page: Page) -> None:
    choose(page, "en", "fr")
    ours = {"error": "`q` is too long: 12 of MAX_CHARS 10", "code": "text_too_long", "request_id": "x"}
    bodies = {500: "<html><h1>Internal Server Error</h1>", 504: "[1]", 530: "null", 413: json.dumps(ours)}
    answers = iter(bodies.items())

    def answer(route: Route) -> None:
        status, body = next(answers)
        route.fulfill(status=status, content_type="text/html", body=body)

    page.route("**/translate", answer)
    for status in bodies:
        write(page, f"one {status}")
        said = f"The service did not answer as expected ({status})."
        expect(page.locator("#status")).to_have_text("The text is too long." if status == 413 else said)
        expect_translation(page, "")


def test_a_service_that_is_gone_is_said_and_tried_again(page: Page) -> None:
    choose(page, "en", "fr")
    page.route("**/translate", lambda route: route.abort())
    write(page, "one two")
    expect(page.locator("#status")).to_have_text("The service cannot be reached.")
    page.unroute("**/translate")
    page.get_by_role("button", name="Translate").click()
    expect_translation(page, "ONE TWO")


def test_the_page_waits_for_a_service_that_starts(page: Page) -> None:
    other = page.context.new_page()
    answers = iter([503, 503])

    def start(route: Route) -> None:
        if next(answers, None):
            route.fulfill(
                status=503, headers={"Retry-After": "1"}, json={"error": "not yet", "code": "starting"}
            )
        else:
            route.continue_()

    other.add_init_script("const later = setTimeout; setTimeout = (run, delay) => later(run, delay / 20)")
    other.route("**/languages", start)
    other.goto(page.url)
    expect(other.locator("#status")).to_have_text("The model is still loading …")
    expect(other.locator("#target option")).not_to_have_count(0)
    expect(other.locator("#status")).to_have_text("")
