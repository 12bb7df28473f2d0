"""``each_row``: all rows run in one test, and failed rows are reported with their values."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from bench import events
from tests.rows import each_row


def notes(failure: BaseException) -> list[str]:
    return failure.__notes__


def test_all_rows_run_and_failed_rows_are_reported_with_their_values() -> None:
    seen = []

    @each_row("number, text", [(1, "a"), (2, "b"), (3, "c")])
    def of(number: int, text: str) -> None:
        seen.append(number)
        assert number == 2

    with pytest.raises(ExceptionGroup, match="2 of 3 rows failed") as caught:
        of()
    assert seen == [1, 2, 3]
    assert [notes(one) for one in caught.value.exceptions] == [
        ["row 0: number=1, text='a'"],
        ["row 2: number=3, text='c'"],
    ]


def test_a_single_failure_is_raised_unchanged() -> None:
    @each_row("value", [(1, 2), (3, 4)])
    def of(value: tuple[int, int]) -> None:
        with pytest.raises(ZeroDivisionError):
            value[0] // (value[1] - 4)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as caught:
        of()
    assert notes(caught.value) == ["row 0: value=(1, 2)"]


async def test_two_tables_run_all_combinations_also_of_a_coroutine() -> None:
    seen = []

    @each_row("one", "ab")
    @each_row("two", [1, 2])
    async def of(one: str, two: int) -> None:
        seen.append((one, two))
        assert two == 1 or one == "a"

    with pytest.raises(AssertionError) as caught:
        await of()
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert notes(caught.value) == ["row 1: two=2", "row 1: one='b'"]


def test_each_row_has_its_own_folder_and_process_state(tmp_path: Path) -> None:
    @each_row("number", range(2))
    def of(number: int, tmp_path: Path) -> None:
        assert not events.redactor.knows_any
        assert not list(tmp_path.iterdir())
        events.redactor.learn(f"a-secret-of-{number}")
        (tmp_path / "file").touch()

    of(tmp_path=tmp_path)
    assert list(inspect.signature(of).parameters) == ["tmp_path"]


@each_row("table, outcome", [([], "no rows"), ([1, 0, 2], "not here")])
def test_a_table_without_rows_or_with_a_skipped_row_is_skipped(table: list[Any], outcome: str) -> None:
    seen = []

    @each_row("number", table)
    def of(number: int) -> None:
        seen.append(number)
        if not number:
            pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match=outcome):
        of()
    assert seen == table


def test_a_timeout_ends_the_table() -> None:
    seen = []

    @each_row("number", range(3))
    def of(number: int) -> None:
        seen.append(number)
        pytest.fail("Timeout (>600.0s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception):
        of()
    assert seen == [0]


def test_names_that_are_not_parameters_of_the_test_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"no parameters \['text'\]"):

        @each_row("number, text", [(1, "a")])
        def of(number: int) -> None: ...
