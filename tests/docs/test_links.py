"""Every link of the documents leads to a file of the repository, and the index to every page."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("checkpoints/*.md")])


def test_links_lead_somewhere() -> None:
    assert [
        f"{page}: {link}" for page in PAGES for link in links(page) if not leads_somewhere(page, link)
    ] == []


def links(page: Path) -> list[str]:
    """Targets of the page's links, other than those to the web."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^()\s]+(?:\([^()]*\))?)\)", text)
    return [target for target in targets if not re.match(r"https?:", target)]


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether there is such a file, and such a heading in it."""
    path, _, anchor = link.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and file.is_relative_to(ROOT) and (not anchor or anchor in anchors(file))


@cache
def anchors(page: Path) -> set[str]:
    """Names that GitHub gives the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 9_000


def test_the_index_leads_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "docs/index.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == {"index.md"}
