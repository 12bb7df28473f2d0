"""What goes into PostgreSQL: vectors, texts and trees in a form that it stores, errors in words of ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("psycopg")

import psycopg

from bench.errors import AuthError, CallError, ConfigError, Rejected, Unavailable
from bench.http import Http
from bench.providers import ProviderContext
from bench.providers.postgres import Database, json_body, storable, vector_literal
from bench.settings import Environment
from tests.rows import each_row

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below, max_size=3),
)


@each_row(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("a\0b", "a\ufffdb"),
        ("\ud800x", "?x"),
        ("\\u0000", "\\u0000"),
        ("\U0001f408 \u05e2", "\U0001f408 \u05e2"),
        ("", ""),
    ],
)
def test_only_what_cannot_be_stored_is_replaced(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert json.loads(json_body({"text": text, "more": [text]})) == {"text": stored, "more": [stored]}


@given(text=st.text(max_size=30))
def test_a_stored_text_is_stored_as_it_is(text: str) -> None:
    once = storable(text)
    assert storable(once) == once and "\0" not in once and len(once) == len(text)
    once.encode("utf-8")


@given(tree=st.dictionaries(st.text(max_size=4), TREES, max_size=4))
def test_a_body_is_json_without_an_escape_that_the_database_refuses(tree: dict[str, object]) -> None:
    text = json_body(tree)
    text.encode("utf-8")
    kept = json.loads(text)
    assert "\\x00" not in repr(kept)
    if "\\u" not in json.dumps(tree):
        assert kept == tree


@given(vector=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_a_vector_is_written_so_that_nothing_is_lost(vector: list[float]) -> None:
    assert json.loads(vector_literal(vector)) == vector


def context(variables: dict[str, str]) -> ProviderContext:
    return ProviderContext(http=Http(), environment=Environment(values=variables), run_dir=Path())


def database(url: str = "postgresql://ana:s3cret%2Fpass@db/x") -> Database:
    return Database.resolve("mine", "${MY_DB}", context({"MY_DB": url}), where="p.yaml:3:1")


def test_a_url_is_resolved_and_a_variable_that_is_missing_is_named() -> None:
    found = database()
    assert (found.user, found.variables) == ("mine", "MY_DB")
    assert found.url == "postgresql://ana:s3cret%2Fpass@db/x"
    with pytest.raises(ConfigError, match=r"p.yaml:3:1: the environment variable MY_DB is not set"):
        Database.resolve("mine", "${MY_DB}", context({}), where="p.yaml:3:1")


@each_row(
    ("error", "kind", "text"),
    [
        (psycopg.OperationalError("no route"), Unavailable, "mine: OperationalError: no route"),
        (psycopg.errors.SyntaxError("bad"), Rejected, "mine: SyntaxError: bad"),
        (psycopg.errors.UndefinedTable("gone"), Rejected, "mine: UndefinedTable: gone"),
        (psycopg.errors.InvalidPassword("no"), AuthError, "mine: InvalidPassword: no (key: MY_DB)"),
        (
            psycopg.OperationalError("password authentication failed"),
            AuthError,
            "mine: OperationalError: password authentication failed (key: MY_DB)",
        ),
    ],
)
def test_an_error_of_the_driver_says_who_must_act(error: Exception, kind: type[CallError], text: str) -> None:
    found = database().failure_of(error)
    assert (type(found), found.message) == (kind, text)


def test_no_password_is_in_an_error() -> None:
    shown = str(database().failure_of(psycopg.OperationalError("cannot use s3cret/pass at db")))
    assert "s3cret" not in shown and "cannot use" in shown
