"""The tree of error classes: its drawing, kinds, exit codes, messages and hints."""

from __future__ import annotations

import errno
import inspect
import re
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench import errors
from bench.errors import (
    AuthError,
    BenchError,
    CallError,
    CanonicalError,
    ConfigError,
    Contaminated,
    DataError,
    DiskFull,
    EvaluatorFailed,
    IdentityError,
    IngestFailed,
    JournalError,
    Locked,
    MappingError,
    MergeConflict,
    NotCleared,
    NotReady,
    PluginFault,
    QuotaError,
    RateLimited,
    Rejected,
    Unavailable,
    UnknownMetric,
    Unreachable,
    Unsupported,
    UsageError,
    VerificationError,
    is_disk_full,
    raise_site,
)
from tests.rows import each_row

TEXT = some.text(min_size=1, max_size=40)


def classes() -> Iterator[type[BenchError]]:
    for _, one in inspect.getmembers(errors, inspect.isclass):
        if issubclass(one, BenchError):
            yield one


def drawn() -> dict[str, int]:
    """Each class in the drawing with the exit code at the end of its line, or of its parent's line."""
    found: dict[str, int] = {}
    code = 0
    for line in (errors.__doc__ or "").splitlines():
        if not re.match(r"\s*(?:│\s*)*[├└]──", line):
            continue
        code = int(shown[1]) if (shown := re.search(r"exit (\d)", line)) else code
        names = re.match(r"[\s│├└─]*((?:[A-Z]\w+)(?:, [A-Z]\w+)*)", line)
        assert names is not None, line
        found |= dict.fromkeys(names[1].split(", "), code)
    return found


def test_the_tree_in_the_docstring_lists_every_class_with_its_exit_code() -> None:
    assert drawn() == {one.__name__: one.exit_code for one in classes() if one is not BenchError}


@each_row("one", [one for one in classes() if one not in (BenchError, CallError)])
def test_every_error_class_has_a_docstring_its_own_hint_and_a_kind(one: type[BenchError]) -> None:
    assert (one.__doc__ or "").rstrip().endswith(".")
    assert one.default_hint != BenchError.default_hint
    assert re.fullmatch(r"[a-z_]+", one.kind)


def test_no_two_error_classes_share_a_kind() -> None:
    kinds = [one.kind for one in classes() if one not in (CallError, Unreachable)]
    assert len(kinds) == len(set(kinds))
    assert Unavailable.kind == CallError.kind == "unavailable", "the plain failure of a call"
    assert Unreachable.kind == Rejected.kind == "rejected", "never retried either"


@each_row(
    ("one", "kind", "code"),
    [
        (BenchError, "internal", 1),
        (UsageError, "usage", 2),
        (ConfigError, "config", 2),
        (UnknownMetric, "unknown_metric", 2),
        (DataError, "data", 2),
        (IdentityError, "identity", 2),
        (JournalError, "journal", 2),
        (DiskFull, "disk_full", 3),
        (Locked, "locked", 6),
        (MergeConflict, "conflict", 4),
        (CanonicalError, "canonical", 5),
        (VerificationError, "verification", 5),
        (AuthError, "auth", 3),
        (QuotaError, "quota", 3),
        (RateLimited, "rate_limited", 3),
        (Unavailable, "unavailable", 3),
        (Rejected, "rejected", 3),
        (MappingError, "mapping", 3),
        (IngestFailed, "ingest_failed", 3),
        (NotReady, "not_ready", 3),
        (Contaminated, "contaminated", 3),
        (NotCleared, "not_cleared", 3),
        (Unsupported, "unsupported", 3),
        (PluginFault, "plugin", 3),
        (EvaluatorFailed, "evaluator", 3),
    ],
)
def test_kinds_and_exit_codes_stay_stable_for_scripts_and_journals(one: type[BenchError], kind: str, code: int) -> None:
    assert (one.kind, one.exit_code) == (kind, code)


def test_only_auth_quota_and_unreachable_errors_stop_a_lane() -> None:
    stopping = {one for one in classes() if issubclass(one, CallError) and one.stops_lane}
    assert stopping == {AuthError, QuotaError, Unreachable}


# ------------------------------------------------------------------------- texts


@given(message=TEXT, where=some.none() | TEXT, hint=some.none() | TEXT)
def test_an_error_prints_its_place_and_message_and_always_has_a_hint(
    message: str, where: str | None, hint: str | None
) -> None:
    found = UsageError(message, where=where, hint=hint)
    assert str(found) == (f"{where}: {message}" if where else message)
    assert found.hint == (hint or "see bench --help")
    assert (found.message, found.where) == (message, where)


def test_an_empty_hint_is_replaced_by_the_default_hint() -> None:
    assert DataError("x", hint="").hint == "correct the row, or the config that maps the data"


def test_a_single_config_error_is_returned_unchanged() -> None:
    only = ConfigError("a", where="f:1:1")
    assert ConfigError.of([only]) is only
    assert only.problems == ()


def test_several_config_errors_are_joined_under_the_place_and_hint_of_the_first() -> None:
    first, second = ConfigError("a", where="f:1:1", hint="h1"), UnknownMetric("b", where="f:2:1", hint="h2")
    joined = ConfigError.of([first, second])
    assert str(joined) == "f:1:1: a\nerror: f:2:1: b"
    assert (joined.where, joined.hint, joined.problems) == ("f:1:1", "h1", (first, second))


def test_an_identity_error_shows_one_change_per_line() -> None:
    found = IdentityError("another experiment", changes=[("k", "10", "3"), ("seed", "1", "2")])
    assert str(found) == "another experiment\n  k: 10 -> 3\n  seed: 1 -> 2"
    assert found.changes == (("k", "10", "3"), ("seed", "1", "2"))
    assert str(IdentityError("x")) == "x"
    assert IdentityError("x").hint == "start a new run for the changed settings"


def test_a_merge_conflict_lists_every_item() -> None:
    found = MergeConflict([("q1", "answer"), ("q2", "search")])
    assert str(found) == "the runs disagree about:\n  q1: answer\n  q2: search"
    assert found.items == (("q1", "answer"), ("q2", "search"))


def test_a_canonical_error_is_a_value_error_with_a_stable_code_and_a_path() -> None:
    found = CanonicalError("duplicate_key", "key twice", path="$.a")
    assert isinstance(found, ValueError)
    assert (found.code, found.path, str(found)) == ("duplicate_key", "$.a", "$.a: key twice")
    assert CanonicalError("float", "1e400").where is None


def test_a_verification_error_has_a_reason_code() -> None:
    found = VerificationError("key_unknown", "an unknown key", where="r.json")
    assert (found.code, str(found), found.hint) == ("key_unknown", "r.json: an unknown key", "do not use this receipt")


def test_an_unavailable_error_has_the_kind_timeout_only_after_a_timeout() -> None:
    assert Unavailable("x", timed_out=True).kind == "timeout"
    assert Unavailable("x").kind == "unavailable"


def test_a_rate_limited_error_has_the_seconds_to_wait() -> None:
    assert RateLimited("x", retry_after_s=1.5).retry_after_s == 1.5
    assert RateLimited("x").retry_after_s is None
    assert RateLimited("x").hint == "wait until the limit of the service allows calls again, then resume the run"


# -------------------------------------------------------------------- errors of other code


@each_row(
    ("raised", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (OSError("no number"), False),
        (ValueError("No space left on device"), False),
        (sqlite3.OperationalError("database or disk is full"), False),
    ],
)
def test_only_no_space_errors_count_as_a_full_disk(raised: Exception, full: bool) -> None:
    assert is_disk_full(raised) is full


@each_row(
    ("name", "full"),
    [
        ("SQLITE_FULL", True),
        ("SQLITE_IOERR_WRITE", True),
        ("SQLITE_IOERR_SHMSIZE", True),
        ("SQLITE_IOERR_TRUNCATE", True),
        ("SQLITE_IOERR_READ", False),
        ("SQLITE_BUSY", False),
        ("SQLITE_CORRUPT", False),
    ],
)
def test_is_disk_full_knows_the_sqlite_error_names_of_a_full_disk(name: str, full: bool) -> None:
    raised = sqlite3.OperationalError("x")
    raised.sqlite_errorname = name
    assert is_disk_full(raised) is full


def test_is_disk_full_recognizes_the_error_of_a_full_sqlite_database() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA page_size = 512")
    connection.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as caught:
        connection.executescript("CREATE TABLE a (x); INSERT INTO a VALUES (zeroblob(5000));")
    connection.close()
    assert is_disk_full(caught.value)


def test_raise_site_names_the_innermost_frame() -> None:
    def inner() -> None:
        raise RuntimeError("boom")

    def outer() -> None:
        inner()

    with pytest.raises(RuntimeError) as caught:
        outer()
    line = inner.__code__.co_firstlineno + 1
    assert raise_site(caught.value) == f" (test_errors.py:{line}, in inner)"


def test_raise_site_of_an_exception_that_was_not_raised_is_empty() -> None:
    assert raise_site(RuntimeError("boom")) == ""
