"""PostgreSQL: vectors, texts and trees that it can store, and errors of the driver."""

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
def test_storable_replaces_only_characters_that_PostgreSQL_refuses(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert json.loads(json_body({"text": text, "more": [text]})) == {"text": stored, "more": [stored]}


@given(text=st.text(max_size=30))
def test_storable_is_idempotent(text: str) -> None:
    once = storable(text)
    assert storable(once) == once and "\0" not in once and len(once) == len(text)
    once.encode("utf-8")


@given(tree=st.dictionaries(st.text(max_size=4), TREES, max_size=4))
def test_json_body_contains_no_escape_that_PostgreSQL_refuses(tree: dict[str, object]) -> None:
    text = json_body(tree)
    text.encode("utf-8")
    found = json.loads(text)
    assert "\\x00" not in repr(found)
    if "\\u" not in json.dumps(tree):
        assert found == tree


@given(vector=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_vector_literal_loses_no_precision(vector: list[float]) -> None:
    assert json.loads(vector_literal(vector)) == vector


def context(variables: dict[str, str]) -> ProviderContext:
    return ProviderContext(http=Http(), environment=Environment(values=variables), run_dir=Path())


def database(url: str = "postgresql://ana:s3cret%2Fpass@db/x") -> Database:
    return Database.resolve("mine", "${MY_DB}", context({"MY_DB": url}), where="p.yaml:3:1")


def test_a_database_URL_is_resolved_and_a_missing_variable_named() -> None:
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
def test_a_driver_error_has_its_kind_and_names_the_key(error: Exception, kind: type[CallError], text: str) -> None:
    found = database().failure_of(error)
    assert (type(found), found.message) == (kind, text)


def test_a_driver_error_contains_no_password() -> None:
    shown = str(database().failure_of(psycopg.OperationalError("cannot use s3cret/pass at db")))
    assert "s3cret" not in shown and "cannot use" in shown
