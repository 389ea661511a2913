"""The same lines, however they come."""

import gzip
import io
from pathlib import Path

import pytest

from model.files import decoded_lines

LINES = ["one\u2028still one\n", "\r\n", "\ufefftwo\n", "last"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_a_file_and_of_a_stream(tmp_path: Path, mark: str, packed: bool) -> None:
    content = (mark + "".join(LINES)).encode()
    content = gzip.compress(content, mtime=0) if packed else content
    (tmp_path / "text").write_bytes(content)
    with (tmp_path / "text").open("rb") as file:
        assert list(decoded_lines(file)) == LINES
    stream = io.BytesIO(content)
    assert list(decoded_lines(stream)) == LINES
    assert not stream.closed


def test_nothing_has_no_lines() -> None:
    assert list(decoded_lines(io.BytesIO())) == []


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a\n\xff\n", UnicodeDecodeError),
        (gzip.compress(b"a\n", mtime=0)[:-9], EOFError),
        (b"\x1f\x8b", EOFError),
    ],
)
def test_what_is_broken_is_no_line(content: bytes, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        list(decoded_lines(io.BytesIO(content)))
