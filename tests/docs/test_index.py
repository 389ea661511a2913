"""The README stays short; the index leads to every page."""

from pathlib import Path

from tests.docs.test_links import links

ROOT = Path(__file__).parents[2]


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 9_000


def test_the_index_leads_to_every_page() -> None:
    linked = {link.partition("#")[0] for link in links(ROOT / "docs/index.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == {"index.md"}
