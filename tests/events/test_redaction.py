"""Secrets are hidden in every encoding; ordinary text is unchanged."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as some

from bench.events import HIDDEN, Redactor, redact, redactor
from bench.redaction import is_setting
from bench.settings import Environment
from tests.rows import each_row

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
    "percent in small letters": lambda secret: "".join(
        char if char.isascii() and char.isalnum() else urllib.parse.quote(char, safe="").lower() for char in secret
    ),
    "plus": lambda secret: urllib.parse.quote_plus(secret),
    "percent twice": lambda secret: urllib.parse.quote(urllib.parse.quote(secret, safe=""), safe=""),
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON as UTF-8": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret)[1:-1])[1:-1],
    "JSON of PHP": lambda secret: json.dumps(secret)[1:-1].replace("/", "\\/"),
    "JSON, all escaped": lambda secret: "".join(
        f"\\u{secret.encode('utf-16-be').hex()[at : at + 4]}" for at in range(0, len(secret.encode("utf-16-be")) * 2, 4)
    ),
    "HTML": html.escape,
    "HTML of JSON": lambda secret: html.escape(json.dumps(secret)[1:-1]),
    "HTML, decimal": lambda secret: "".join(f"&#{ord(char)};" for char in secret),
    "HTML, hex": lambda secret: "".join(f"&#x{ord(char):X};" for char in secret),
    "repr": lambda secret: repr(secret)[1:-1],
    "ascii": lambda secret: ascii(secret)[1:-1],
}


@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRET, before=AROUND, after=AROUND)
@example(secret="a b/c?d", before="Bearer ", after="\n")
@example(secret="\u00e9\u00e9\u00e9\u00e9", before="", after="")
def test_a_known_secret_is_hidden_in_every_encoding(form: str, secret: str, before: str, after: str) -> None:
    own = Redactor()
    own.learn(secret)
    leaked = FORMS[form](secret)
    assume(leaked not in HIDDEN)
    assert own.holds_secret(before + leaked + after)
    assert leaked not in own(before + leaked + after).replace(HIDDEN, "")


@each_row("user", ["", "u", "me", "bot", "user"])
def test_a_secret_in_basic_auth_is_hidden(user: str) -> None:
    own = Redactor()
    own.learn("canary/one+two=3")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        pair = encode(f"{user}:canary/one+two=3".encode()).decode()
        for sent in (pair, pair.rstrip("=")):
            assert own.holds_secret(f"Basic {sent}")
            assert len(own(f"x {sent} y").replace(HIDDEN, "")) <= len("x  y") + 8


def test_a_secret_with_HTML_entities_and_escapes_is_hidden() -> None:
    own = Redactor()
    own.learn('a b/c"d&e=f')
    for text in ("a&nbsp;b&sol;c&quot;d&amp;e&equals;f", "a+b%2Fc%22d%26e%3Df", 'a\tb\\/c\\"d&e=f', 'a b/c""d&e=f'):
        assert own.hide(text.replace("&nbsp;", "+")) == HIDDEN, text


@each_row("piece", ["\\", "%25", "&amp;", "&#0000", "canaryA\\", "canaryA", "canaryA/with+slash"])
def test_redaction_takes_linear_time(piece: str) -> None:
    own = Redactor()
    own.learn('canaryA/with+slash=="q')
    assert own.hide(piece * 20_000) == piece * 20_000


@each_row(
    "value",
    [
        "true", "1", "8000", "0.25.1", "localhost", "127.0.0.1:8000", "http://127.0.0.1:8000/api", "http://api.example.com",
        "production", "us-east-1", "openai/gpt-4o-mini", "/var/lib/data", "short", "postgresql://me@one/x",
    ],
)  # fmt: skip
def test_plain_settings_are_not_secrets(value: str) -> None:
    assert is_setting(value)


@each_row(
    "value",
    [
        "canaryD-in-a-header", "org-canary-93871", "tenant42a7b9", "postgres://app:CANARY-pass@db/prod", "a8f3k2l9d0",
        "http://x.example.com/?key=abcdef", "https://hooks.example.com/T0000/B0000000000000000", "two words or more",
    ],
)  # fmt: skip
def test_other_values_are_secrets(value: str) -> None:
    assert not is_setting(value)


def test_a_resolved_variable_is_hidden_unless_it_is_a_plain_setting() -> None:
    environment = Environment({"A_NAME": "canary-of-a-variable-17", "B_REGION": "us-east-1", "C_TOKEN": "abcdefgh"})
    with redactor.forget_new_secrets():
        environment.resolve("${A_NAME} ${B_REGION} ${C_TOKEN}")
        shown = redact("x canary-of-a-variable-17 us-east-1 abcdefgh y")
    assert shown == f"x {HIDDEN} us-east-1 {HIDDEN} y"


def test_only_the_password_of_an_address_is_hidden() -> None:
    with redactor.forget_new_secrets():
        Environment({"DB": "postgres://app:CANARY%2Fpass@db/prod"}).resolve("${DB}")
        assert "CANARY" not in redact("CANARY/pass and CANARY%2Fpass and postgres://app:CANARY%2Fpass@db/prod")


@given(secrets=some.lists(SECRET, min_size=1, max_size=4), text=some.text(max_size=60))
def test_redacted_text_contains_no_secret(secrets: list[str], text: str) -> None:
    own = Redactor()
    for secret in secrets:
        own.learn(secret)
    assume(not own.holds_secret(HIDDEN))
    once = own(" ".join([text, *secrets]))
    assert not any(secret in part for secret in secrets for part in once.split(HIDDEN))


def test_the_longer_of_two_secrets_is_hidden_completely() -> None:
    own = Redactor()
    own.learn("abcd")
    own.learn("abcd-efgh")
    assert own("x abcd-efgh y abcd z") == f"x {HIDDEN} y {HIDDEN} z"


def test_learning_a_secret_twice_changes_nothing() -> None:
    own = Redactor()
    own.learn("wordwordword")
    own.learn("wordwordword")
    assert own("a wordwordword b") == f"a {HIDDEN} b"


def test_forget_new_secrets_forgets_only_secrets_of_the_block() -> None:
    own = Redactor()
    own.learn("older-word")
    with pytest.raises(RuntimeError), own.forget_new_secrets():
        own.learn("newer-word")
        assert own("older-word, newer-word") == f"{HIDDEN}, {HIDDEN}"
        raise RuntimeError
    assert own("older-word, newer-word") == f"{HIDDEN}, newer-word"


@each_row("short", ["", "a", "abc", "12"])
def test_a_secret_of_three_characters_is_not_hidden(short: str) -> None:
    own = Redactor()
    own.learn(short)
    assert own("abc 12 a word") == "abc 12 a word"
    assert not own.holds_secret("abc 12 a word")


@each_row(
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
def test_text_shaped_like_a_key_is_hidden(text: str) -> None:
    assert Redactor()(f"got {text}, sorry") == f"got {HIDDEN}, sorry"


@each_row("scheme", ["Bearer", "bearer", "BEARER", "Token", "token", "Api-Key", "api-key"])
def test_text_after_an_authorization_scheme_is_hidden(scheme: str) -> None:
    assert "0123456789" not in Redactor()(f"Authorization: {scheme} 0123456789abcdef.xyz==")


@each_row(
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
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert Redactor()(text) == text


def test_redact_uses_the_redactor_of_the_program() -> None:
    redactor.learn("quite-a-secret-of-this-test")
    assert redact("x quite-a-secret-of-this-test y") == f"x {HIDDEN} y"
