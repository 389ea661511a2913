import click
import pytest

from model.cli.evaluation.columns import REFERENCE_COLUMNS, ReferenceColumns


@pytest.mark.parametrize(
    ("text", "columns"),
    [("2", [2]), ("2,4", [2, 4]), ("2-", [2, 3, 4, 5]), ("1,3-", None), ("0", None), ("b", None), ("", None)],
)
def test_columns_are_read(text: str, columns: list[int] | None) -> None:
    if columns is None:
        with pytest.raises(click.BadParameter, match="is not a column"):
            REFERENCE_COLUMNS.convert(text, None, None)
    else:
        assert REFERENCE_COLUMNS.convert(text, None, None).among(5, leaving_out=1) == columns


def test_the_source_is_no_reference() -> None:
    assert ReferenceColumns((1,), is_open=True).among(3, leaving_out=2) == [1, 3]


@pytest.mark.parametrize(("source", "reference"), [(1, 2), (2, 1), (3, 2)])
def test_where_nothing_is_said_it_is_the_column_beside_the_source(source: int, reference: int) -> None:
    assert ReferenceColumns.other_than(source).single == reference


def test_several_columns_are_no_single_one() -> None:
    assert ReferenceColumns((2, 3)).single is None
    assert ReferenceColumns((2,), is_open=True).single is None
