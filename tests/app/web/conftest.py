"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Response, expect, sync_playwright

from tests.app.double import write_keys
from tests.app.remote import Live, running

Open = Callable[..., Page]

PAIRS = "en-fr,fr-en,en-de,de-en,de-fr,fr-de"
expect.set_options(timeout=60_000)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser; it ends with these tests, because its event loop would be in the way of others."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("the Debian package chromium is not installed")
    with sync_playwright() as playwright:
        # Root has no sandbox. Drawing by an emulated GPU takes longer.
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def service() -> Iterator[Live]:
    """Translates words into capitals, a word in 20 ms."""
    with running(DOUBLE_PAIRS=PAIRS, DOUBLE_SECONDS="0.02") as live:
        yield live


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Needs the key `sesame`."""
    keys = write_keys(tmp_path_factory.mktemp("keys"), ali="sesame")
    with running(DOUBLE_PAIRS=PAIRS, DRAGOMAN_API_KEYS_FILE=str(keys)) as live:
        yield live


@pytest.fixture
def open_page(browser: Browser, service: Live) -> Iterator[Open]:
    """Opens a page in a profile of its own; in the end, its scripts have failed nowhere."""
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # The browser reports every answer that is an error; those of assets are noted below.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    def check(response: Response) -> None:
        path = urlsplit(response.url).path
        if response.status >= 400 and path.startswith(("/web/", "/swagger/")):
            errors.append(f"{path}: {response.status}")

    def load(
        path: str = "", *, live: Live | None = None, base: Page | None = None, **options: object
    ) -> Page:
        """Open a path of a service, in the profile of another page if there is one."""
        if base is None:
            settings = {"locale": "en-GB", "permissions": ["clipboard-read", "clipboard-write"]} | options
            context = stack.enter_context(browser.new_context(**settings))  # type: ignore[arg-type]
        else:
            context = base.context
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("response", check)
        page.goto((live or service).url + path)
        return page

    with ExitStack() as stack:
        yield load
    assert errors == []


@pytest.fixture
def page(open_page: Open) -> Page:
    """The page, once it knows the languages."""
    page = open_page()
    expect(page.locator("#target option")).not_to_have_count(0)
    return page
