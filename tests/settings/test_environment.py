"""Environment variables and secrets, from variables or files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from bench.errors import ConfigError
from bench.events import redactor
from bench.plan.provider import fill_visibly
from bench.settings import DryRunEnvironment, Environment, stripped
from tests.rows import each_row

WAYS = "export NAME=..., or put it into .env, or name a file with NAME_FILE"


def of(**values: str) -> Environment:
    return Environment(values=values)


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("  from-a-file-4711\n", encoding="utf-8")
    return path


# ---------------------------------------------------------------------- load


def test_process_variables_override_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("BENCH_T_ONE=file\nBENCH_T_TWO=file\n", encoding="utf-8")
    monkeypatch.setenv("BENCH_T_ONE", "process")
    monkeypatch.delenv("BENCH_T_TWO", raising=False)
    environment = Environment.load(tmp_path)
    assert (environment.get("BENCH_T_ONE"), environment.get("BENCH_T_TWO")) == ("process", "file")
    assert environment.dotenv == tmp_path / ".env"
    assert "BENCH_T_TWO" not in os.environ


@pytest.mark.parametrize("blank", ["", " ", "\ufeff"])
def test_a_blank_process_variable_does_not_hide_the_one_of_dotenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank: str
) -> None:
    (tmp_path / ".env").write_text("BENCH_T_ONE=file\n", encoding="utf-8")
    monkeypatch.setenv("BENCH_T_ONE", blank)
    assert Environment.load(tmp_path).get("BENCH_T_ONE") == "file"


def test_without_dotenv_only_process_variables_are_used(tmp_path: Path) -> None:
    environment = Environment.load(tmp_path)
    assert environment.dotenv is None
    assert dict(environment.values) == dict(os.environ)


def test_env_file_replaces_the_dotenv_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("BENCH_T_ONE=workspace\n", encoding="utf-8")
    (tmp_path / "other.env").write_text("BENCH_T_TWO=named\n", encoding="utf-8")
    environment = Environment.load(tmp_path, tmp_path / "other.env")
    assert (environment.get("BENCH_T_ONE"), environment.get("BENCH_T_TWO")) == (None, "named")


def test_a_missing_env_file_is_a_ConfigError(tmp_path: Path) -> None:
    gone = tmp_path / "gone.env"
    with pytest.raises(ConfigError) as caught:
        Environment.load(tmp_path, gone)
    assert (str(caught.value), caught.value.hint) == (f"no such file: {gone}", "name an existing file with --env-file")


# ------------------------------------------------------------------- secrets


def test_an_empty_variable_counts_as_unset() -> None:
    environment = of(NAME="")
    assert environment.get("NAME") is None
    assert environment.secret("NAME") is None


def test_a_secret_is_hidden_when_printed() -> None:
    found = of(NAME="zebra-crossing-81").secret("NAME")
    assert found is not None
    assert found.get_secret_value() == "zebra-crossing-81"
    assert "zebra" not in f"{found} {found!r}"
    assert redactor("key zebra-crossing-81") == "key [redacted]"


def test_a_secret_may_be_in_a_file(secret_file: Path) -> None:
    found = of(NAME_FILE=str(secret_file)).secret("NAME")
    assert found is not None and found.get_secret_value() == "from-a-file-4711"
    assert redactor.holds_secret("x from-a-file-4711 y")


@each_row(
    "value",
    [
        "http://127.0.0.1:8000",
        "https://me:hunter2-77@db.example/x",
        "eu-west-1",
        "gpt-4o-mini",
        "a long value 8842 !",
        "7",
    ],
)
@each_row("name", ["STORE_URL", "STORE_API_KEY"])
def test_a_value_from_a_file_is_treated_like_the_variable(name: str, value: str, tmp_path: Path) -> None:
    """The byte order mark and the line end of a file are not part of the value."""
    (tmp_path / "value").write_bytes(b"\xef\xbb\xbf" + value.encode() + b"\r\n")
    seen = []
    for environment in (of(**{name: value}), of(**{f"{name}_FILE": str(tmp_path / "value")})):
        text = f"connect to ${{{name}}}"
        with redactor.forget_new_secrets():
            environment.ensure(name, user="acme")
            shown = (
                environment.get(name),
                environment.resolve(text),
                fill_visibly(text, environment),
                redactor(f"<{value}>"),
            )
            plain = environment.require_plain(name, user="acme", example="x")
            seen.append((*shown, plain, *environment.values_of(name.__eq__)))
    assert seen[0] == seen[1]


def test_a_variable_overrides_its_file(secret_file: Path) -> None:
    environment = of(NAME="direct", NAME_FILE=str(secret_file))
    assert environment.secret("NAME") == SecretStr("direct")
    assert environment.resolve("${NAME}") == "direct"


def test_an_empty_secret_file_counts_as_unset(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n", encoding="utf-8")
    environment = of(NAME_FILE=str(tmp_path / "empty"))
    assert environment.secret("NAME") is None
    assert environment.resolve("${NAME:-other}") == "other"


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_secret_file_is_reported_with_variable_and_path(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "gone"
    if content is not None:
        path.write_bytes(content)
    environment = of(NAME_FILE=str(path))
    for look in (environment.secret, lambda name: environment.resolve(f"${{{name}}}")):
        with pytest.raises(ConfigError) as caught:
            look("NAME")
        assert (str(caught.value), caught.value.hint) == (
            f"NAME_FILE names {path}, which cannot be read",
            "correct the path, or make the file readable UTF-8 text",
        )


def test_a_missing_required_secret_names_its_user() -> None:
    with pytest.raises(ConfigError) as caught:
        of().require("NAME", user="provider acme")
    message = "provider acme needs the environment variable NAME, which is not set"
    assert (str(caught.value), caught.value.hint) == (message, WAYS)
    assert of(NAME="given-here-1").require("NAME", user="acme").get_secret_value() == "given-here-1"


def test_a_missing_required_variable_has_an_example() -> None:
    with pytest.raises(ConfigError) as caught:
        of().require_plain("NAME", user="model azure/x", example="https://...")
    message = "model azure/x needs the environment variable NAME, which is not set"
    assert (str(caught.value), caught.value.hint) == (message, "export NAME=https://...")
    assert of(NAME="u").require_plain("NAME", user="x", example="e") == "u"


# ------------------------------------------------------------------- resolve


@each_row(
    ("text", "expected"),
    [
        ("${HOST}", "h"),
        ("http://${HOST}:${PORT:-80}/", "http://h:80/"),
        ("${HOST:-x}", "h"),
        ("${EMPTY:-x}", "x"),
        ("${GONE:-}", ""),
        ("${GONE:-${HOST}", "${HOST"),
        ("$${HOST}", "${HOST}"),
        ("$${HOST} ${HOST}", "${HOST} h"),
        ("${host} ${Host} $HOST {HOST}", "${host} ${Host} $HOST {HOST}"),
        ("${HOST}${HOST}", "hh"),
        ("", ""),
    ],
)
def test_resolve_replaces_upper_case_variables(text: str, expected: str) -> None:
    assert of(HOST="h", EMPTY="").resolve(text) == expected


def test_resolve_registers_a_value_from_a_file_as_secret(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("walrus-7734\n", encoding="utf-8")
    assert of(NAME_FILE=str(path)).resolve("Bearer ${NAME}") == "Bearer walrus-7734"
    assert redactor("Bearer walrus-7734") == "Bearer [redacted]"


def test_a_missing_variable_is_reported_at_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        of().resolve("x ${NAME}", where="chroma.yaml:3:5")
    assert str(caught.value) == "chroma.yaml:3:5: the environment variable NAME is not set"
    assert caught.value.hint == WAYS


@given(st.text(), st.text(min_size=1).filter(lambda value: value == stripped(value)))
def test_resolved_values_are_not_resolved_again(around: str, value: str) -> None:
    text = around.replace("$", "")
    assert of(NAME=value).resolve(text + "${NAME}" + text) == text + value + text


@given(st.text())
def test_escaped_text_is_unescaped(text: str) -> None:
    plain = text.replace("$", "")
    assert of().resolve(plain + "$${A}") == plain + "${A}"


# ----------------------------------------------------------------- rehearsal


def test_a_dry_run_records_each_missing_variable_once() -> None:
    ahead = DryRunEnvironment(values={"HOST": "h"})
    assert ahead.resolve("${HOST} ${URL} ${URL} ${PORT:-1}") == "h ${URL} ${URL} 1"
    assert ahead.require("KEY", user="acme").get_secret_value() == "${KEY}"
    assert ahead.require_plain("BASE", user="acme", example="e") == "${BASE}"
    assert ahead.unset == ["URL", "KEY", "BASE"]


def test_dry_runs_are_independent() -> None:
    one, two = DryRunEnvironment(), DryRunEnvironment()
    one.resolve("${X}")
    assert (one.unset, two.unset) == (["X"], [])


def test_ensure_hides_a_secret_but_not_a_plain_variable() -> None:
    with redactor.forget_new_secrets():
        environment = of(ACME_URL="http://ensured.test:4711", ACME_KEY="ensured-zebra-93")
        environment.ensure("ACME_URL", user="acme")
        environment.ensure("ACME_KEY", user="acme")
        assert redactor("http://ensured.test:4711 ensured-zebra-93") == "http://ensured.test:4711 [redacted]"
        with pytest.raises(ConfigError, match="acme needs the environment variable NAME, which is not set"):
            environment.ensure("NAME", user="acme")


def test_ensure_in_a_dry_run_records_a_missing_variable_once() -> None:
    ahead = DryRunEnvironment(values={})
    ahead.ensure("NAME", user="acme")
    ahead.ensure("NAME", user="other")
    assert ahead.unset == ["NAME"]
