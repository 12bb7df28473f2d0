"""Addresses are shown with host and user, but without passwords."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.settings import hide_secrets, is_secret, without_password
from tests.rows import each_row

H = "[redacted]"


@each_row(
    ("text", "expected"),
    [
        ("postgresql://me:hunter22@db:5432/bench", f"postgresql://me:{H}@db:5432/bench"),
        ("postgresql://me:p@ss:w@db/bench?sslmode=require", f"postgresql://me:{H}@db/bench?sslmode=require"),
        ("redis://:hunter22@cache:6379/0", f"redis://:{H}@cache:6379/0"),
        ("postgresql://me@db/bench", "postgresql://me@db/bench"),
        ("https://me:hunter22@acme.test/v1", f"https://{H}@acme.test/v1"),
        ("https://hunter22@acme.test/v1", f"https://{H}@acme.test/v1"),
        ("http://127.0.0.1:8000/v1?a=me@home", "http://127.0.0.1:8000/v1?a=me@home"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("https://acme.test/v1?api_key=hunter22&region=eu", f"https://acme.test/v1?api_key={H}&region=eu"),
        ("https://acme.test/v1?keyword=hunter22", "https://acme.test/v1?keyword=hunter22"),
        ("host=db user=me password=hunter22 dbname=x", f"host=db user=me password={H} dbname=x"),
        (r"host=db password='hunter 2\'2' dbname=x", f"host=db password={H} dbname=x"),
        ("--with sk-proj-a1B2c3D4a1B2c3D4a1B2", f"--with {H}"),
        ("gpt-4o-mini", "gpt-4o-mini"),
    ],
)
def test_hide_secrets_hides_passwords_and_keys_in_addresses(text: str, expected: str) -> None:
    assert hide_secrets(text) == expected


WORD = st.text("abcXYZ019-_.~", min_size=1, max_size=12)


@given(user=WORD, one=WORD, other=WORD, host=WORD)
def test_hide_secrets_hides_a_changed_password_but_shows_a_changed_host(
    user: str, one: str, other: str, host: str
) -> None:
    assert hide_secrets(f"postgresql://{user}:{one}@db/{host}") == hide_secrets(
        f"postgresql://{user}:{other}@db/{host}"
    )
    assert without_password(f"postgresql://{user}:{one}@db/x") != without_password(f"postgresql://{user}:{one}@DB/x")


@each_row(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True), ("HF_TOKEN", True), ("DB_PASSWORD", True), ("AWS_SECRET_ACCESS_KEY", True),
        ("KEYS", True), ("PGVECTOR_URL", False), ("KEYSPACE", False), ("MONKEY_URL", False), ("LETTA_MODEL", False),
    ],
)  # fmt: skip
def test_is_secret_recognizes_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret
