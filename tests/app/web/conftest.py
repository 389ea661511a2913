"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    expect,
    sync_playwright,
)

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


def new_profile(browser: Browser, **options: object) -> BrowserContext:
    settings = {"locale": "en-GB", "permissions": ["clipboard-read", "clipboard-write"]} | options
    return browser.new_context(**settings)  # type: ignore[arg-type]


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


class Watch:
    """What went wrong on the pages of a test."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def follow(self, page: Page) -> Page:
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("response", self._check)
        return page

    def _note(self, message: ConsoleMessage) -> None:
        # The browser reports every answer that is an error; those of assets are noted below.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)

    def _check(self, response: Response) -> None:
        path = urlsplit(response.url).path
        if response.status >= 400 and path.startswith(("/web/", "/swagger/")):
            self.errors.append(f"{path}: {response.status}")


@pytest.fixture(scope="package")
def watch() -> Watch:
    return Watch()


@pytest.fixture(autouse=True)
def no_errors(watch: Watch) -> Iterator[None]:
    """Scripts and assets have failed nowhere."""
    watch.errors.clear()
    yield
    assert watch.errors == []


@pytest.fixture
def open_page(browser: Browser, service: Live, watch: Watch) -> Iterator[Open]:
    """Opens a page in a profile of its own."""

    def load(
        path: str = "", *, live: Live | None = None, base: Page | None = None, **options: object
    ) -> Page:
        """Open a path of a service, in the profile of another page if there is one."""
        context = stack.enter_context(new_profile(browser, **options)) if base is None else base.context
        page = stack.enter_context(context.new_page())
        watch.follow(page).goto((live or service).url + path)
        return page

    with ExitStack() as stack:
        yield load


@pytest.fixture(scope="package")
def shared_page(browser: Browser, watch: Watch) -> Page:
    """A page whose process starts once: that takes two thirds of the time of opening one."""
    return watch.follow(new_profile(browser).new_page())


@pytest.fixture
def page(shared_page: Page, service: Live, no_errors: None) -> Page:
    """The page, once it has loaded all, without what another test has stored and rerouted."""
    shared_page.unroute_all(behavior="ignoreErrors")
    shared_page.emulate_media(color_scheme="null")
    shared_page.set_viewport_size({"width": 1280, "height": 720})
    shared_page.bring_to_front()
    shared_page.goto(service.url + "livez")
    shared_page.evaluate("localStorage.clear()")
    shared_page.goto(service.url)
    expect(shared_page.locator("#file")).to_have_attribute("accept", re.compile("txt"))
    return shared_page
