"""The command line that comes with DeepL's package."""

import os
import subprocess
import sys

from tests.app.remote import Live


def run(live: Live, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {"DEEPL_AUTH_KEY": "any", "DEEPL_SERVER_URL": live.url}
    return subprocess.run(
        [sys.executable, "-m", "deepl", *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_translates(live: Live) -> None:
    translated = run(live, "text", "--to", "FR", "--show-detected-source", "good morning", "two")
    assert translated.stdout.splitlines() == [
        "Detected source language: EN",
        "GOOD MORNING",
        "Detected source language: EN",
        "TWO",
    ]


def test_it_lists_languages_and_tells_the_usage(live: Live) -> None:
    listed = run(live, "languages").stdout
    assert "EN-GB: English (British)" in listed
    assert "Characters: " in run(live, "usage").stdout


def test_it_shows_our_sentence(live: Live) -> None:
    refused = run(live, "text", "--to", "FR", "--formality", "more", "good morning")
    assert refused.returncode != 0
    assert "`formality` cannot be `more`" in refused.stderr
