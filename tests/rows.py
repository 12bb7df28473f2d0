"""Run all rows of a table in one test, because pytest needs more time for a test than most rows do.

``each_row`` replaces ``pytest.mark.parametrize`` where a row is cheap and needs no fixture of its own::

    @each_row("text, value", [("1", 1), ("one", None)])
    def test_a_number_is_read(text: str, value: int | None) -> None:
        assert number(text) == value

Every row runs, also after a row that failed. Each has its own process state and its own ``tmp_path``; other fixtures
are shared by all rows. Two tables above one test run every combination.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from reprlib import Repr
from typing import Any, TypeVar

import pytest

from bench import events

Test = TypeVar("Test", bound=Callable[..., Any])
TIMEOUT = "from pytest-timeout"


def each_row(names: str | Sequence[str], table: Iterable[Any]) -> Callable[[Test], Test]:
    """Return a decorator that calls a test with each row of the table and reports the rows that fail."""
    keys, rows = rows_of(names, table)

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(*own: Any, **fixtures: Any) -> None:
            failures = Failures()
            for number, row in enumerate(rows):
                with failures.of(number, row):
                    test(*own, **for_row(number, fixtures), **row)
            failures.report(len(rows))

        @wraps(test)
        async def run_async(*own: Any, **fixtures: Any) -> None:
            failures = Failures()
            for number, row in enumerate(rows):
                with failures.of(number, row):
                    await test(*own, **for_row(number, fixtures), **row)
            failures.report(len(rows))

        made: Any = run_async if inspect.iscoroutinefunction(test) else run
        made.__signature__ = without(inspect.signature(test), keys)
        return made

    return decorate


def rows_of(names: str | Sequence[str], table: Iterable[Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names, and each row by name; a single name takes each value as it is."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    alone = isinstance(names, str) and len(keys) == 1
    return keys, [dict(zip(keys, (value,) if alone else value, strict=True)) for value in table]


def without(signature: inspect.Signature, taken: list[str]) -> inspect.Signature:
    """Return the signature without the names of the rows, which pytest would look for among the fixtures."""
    if missing := set(taken) - signature.parameters.keys():
        raise TypeError(f"the test has no parameters {sorted(missing)}")
    return signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in taken])


def for_row(number: int, fixtures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fixtures with a new folder as ``tmp_path``."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = folder = Path(own["tmp_path"], f"row{number}")
        folder.mkdir()
    return own


@contextmanager
def process_state() -> Iterator[None]:
    """Reset the state that a program keeps until it ends: known secrets, and sinks of its log."""
    try:
        with events.redactor.forget_new_secrets():
            yield
    finally:
        events.close()


class Failures:
    """The failures of a table, each with its row as a note."""

    def __init__(self) -> None:
        self.failed: list[BaseException] = []
        self.skipped: BaseException | None = None

    @contextmanager
    def of(self, number: int, row: Mapping[str, Any]) -> Iterator[None]:
        """Collect the failure of one row; a timeout ends the test, because its timer does not start again."""
        try:
            with process_state():
                yield
        except pytest.skip.Exception as skipped:
            self.skipped = skipped
        except (Exception, pytest.fail.Exception) as failure:
            if TIMEOUT in str(failure):
                raise
            failure.add_note(f"row {number}: " + ", ".join(f"{name}={shown(value)}" for name, value in row.items()))
            self.failed.append(failure)

    def report(self, total: int) -> None:
        """Raise what the rows raised; skip the test if it has no rows or one of them was skipped."""
        if not total:
            pytest.skip("the table has no rows")
        if len(self.failed) > 1:
            raise BaseExceptionGroup(f"{len(self.failed)} of {total} rows failed", self.failed)
        if first := (*self.failed, self.skipped)[0]:
            raise first


def shown(value: Any) -> str:
    """Return a short form of a value: a function by name and line, a long text without its middle."""
    code = getattr(value, "__code__", None)
    return f"{value.__name__} of line {code.co_firstlineno}" if code else SHORT.repr(value)


SHORT = Repr()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = 200
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = 20
