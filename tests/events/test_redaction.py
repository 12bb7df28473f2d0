"""No secret leaves in any form; ordinary text leaves as it came."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as some

from bench.events import HIDDEN, Redactor, redact, redactor

SECRET = some.text(min_size=4, max_size=40)
AROUND = some.text(max_size=20)

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "percent": lambda secret: urllib.parse.quote(secret, safe=""),
    "hex": lambda secret: secret.encode().hex(),
    "HEX": lambda secret: secret.encode().hex().upper(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 without its end": lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRET, before=AROUND, after=AROUND)
@example(secret="a b/c?d", before="Bearer ", after="\n")
@example(secret="\u00e9\u00e9\u00e9\u00e9", before="", after="")
def test_a_known_secret_does_not_pass_in_any_form(form: str, secret: str, before: str, after: str) -> None:
    own = Redactor()
    own.learn(secret)
    leaked = FORMS[form](secret)
    assume(leaked not in HIDDEN)
    assert own.holds_secret(before + leaked + after)
    assert leaked not in own(before + leaked + after).replace(HIDDEN, "")


@given(secrets=some.lists(SECRET, min_size=1, max_size=4), text=some.text(max_size=60))
def test_what_was_redacted_holds_no_secret_and_stays_as_it_is(secrets: list[str], text: str) -> None:
    own = Redactor()
    for secret in secrets:
        own.learn(secret)
    assume(not own.holds_secret(HIDDEN))
    once = own(" ".join([text, *secrets]))
    assert not any(secret in part for secret in secrets for part in once.split(HIDDEN))


def test_of_two_secrets_the_longer_one_is_hidden_whole() -> None:
    own = Redactor()
    own.learn("abcd")
    own.learn("abcd-efgh")
    assert own("x abcd-efgh y abcd z") == f"x {HIDDEN} y {HIDDEN} z"


def test_learning_twice_changes_nothing() -> None:
    own = Redactor()
    own.learn("wordwordword")
    own.learn("wordwordword")
    assert own("a wordwordword b") == f"a {HIDDEN} b"


def test_a_secret_of_a_block_is_forgotten_with_it_and_an_older_one_is_not() -> None:
    own = Redactor()
    own.learn("older-word")
    with pytest.raises(RuntimeError), own.forgetting():
        own.learn("newer-word")
        assert own("older-word, newer-word") == f"{HIDDEN}, {HIDDEN}"
        raise RuntimeError
    assert own("older-word, newer-word") == f"{HIDDEN}, newer-word"


@pytest.mark.parametrize("short", ["", "a", "abc", "12"])
def test_a_secret_of_three_characters_would_blank_ordinary_words(short: str) -> None:
    own = Redactor()
    own.learn(short)
    assert own("abc 12 a word") == "abc 12 a word"
    assert not own.holds_secret("abc 12 a word")


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnopqrstuv",
        "sk_live_0123456789abcdefgh",
        "pk-0123456789abcdefgh",
        "rk_0123456789abcdefgh",
        "gsk_0123456789abcdefgh",
        "xai-0123456789abcdefgh",
        "ghp_0123456789abcdefghij",
        "gho_0123456789abcdefghij",
        "hf_0123456789abcdefghij",
        "m0-0123456789abcdefghij",
        "sm_0123456789abcdefghij",
        "key-0123456789abcdefghij",
        "AIzaSyA0123456789abcdefghijklmnopqrstuvw",
    ],
)
def test_what_looks_like_a_key_is_hidden_though_nobody_knows_it(text: str) -> None:
    assert Redactor()(f"got {text}, sorry") == f"got {HIDDEN}, sorry"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Token", "token", "Api-Key", "api-key"])
def test_what_follows_a_scheme_of_authorization_is_hidden(scheme: str) -> None:
    assert "0123456789" not in Redactor()(f"Authorization: {scheme} 0123456789abcdef.xyz==")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the token is short",
        "key-value pairs",
        "sk-short",
        "task-0123456789abcdefgh",
        "a risk-averse-person-would-not",
        "bearer of bad news",
        "conv-26_0",
        "bench-demo-r-9d1f0847494ff88f",
        "sha256:9d1f0847494ff88f9d1f0847494ff88f",
    ],
)
def test_ordinary_text_passes_as_it_came(text: str) -> None:
    assert Redactor()(text) == text


def test_the_program_has_one_redactor_and_redact_is_its_voice() -> None:
    redactor.learn("quite-a-secret-of-this-test")
    assert redact("x quite-a-secret-of-this-test y") == f"x {HIDDEN} y"
