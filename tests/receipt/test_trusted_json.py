"""``keys/trusted.json``: valid contents, the message for each invalid one, and which key is trusted for what."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.receipt.signing.signature import KeyRefused, SigningKey
from bench.receipt.signing.trust_store import DEFAULT_ORIGIN, TrustDecision, TrustedKey, TrustStore
from tests.rows import each_row

Json = dict[str, Any]
KEYS = [SigningKey.from_raw(bytes([n]) * 32).public for n in (1, 2, 3)]
OTHER = "sha256:" + "0" * 64


def entry(number: int = 0, **changes: object) -> Json:
    """One entry of the file."""
    key = KEYS[number]
    return {
        "name": f"key-{number}", "fingerprint": key.fingerprint, "publicKey": key.pem, "roles": ["receipt", "log"],
        "status": "active", "validFromIndex": 0, "validToIndex": None, "revokedFromIndex": None, "reason": None,
        **changes,
    }  # fmt: skip


def document(*entries: Json, **changes: object) -> Json:
    return {"schema": "bench.trusted/1", "logOrigin": "bench.local/log", "keys": list(entries), **changes}


def refused(path: Path, content: object) -> KeyRefused:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(KeyRefused) as caught:
        TrustStore.load(path)
    assert (caught.value.kind, caught.value.where, caught.value.exit_code) == (caught.value.code, str(path), 2)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trusted.json"


def weak_pem(raw: str) -> str:
    import base64

    der = bytes.fromhex("302a300506032b6570032100" + raw)
    return f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"


UNREADABLE: list[tuple[object, str]] = [
    (b"", "the text is not JSON: Expecting value at line 1 column 1"),
    (b"{", "the text is not JSON: Expecting property name enclosed in double quotes at line 1 column 2"),
    (b"\xef\xbb\xbf{}", "the document begins with a byte order mark"),
    (b"\xff", "the text is not UTF-8 at byte 0"),
    (b'{"keys": [], "keys": []}', "keys: the key occurs twice in one object"),
    (b'{"schema": "bench.trusted/1", "\\u0073chema": "x"}', "schema: the key occurs twice in one object"),
    (b'{"a": NaN}', "a: NaN and infinities are not JSON"),
    (b'{"a": 9007199254740993}', "a: an integer is not in -(2^53-1)..2^53-1, so programs may read it differently"),
    (b"[" * 65 + b"]" * 65, "more than 64 levels of nesting"),
    (b"null", "Input should be a valid dictionary or instance of TrustedFile"),
    (b"[]", "Input should be a valid dictionary or instance of TrustedFile"),
    (document(schema="bench.trusted/2"), "schema: Input should be 'bench.trusted/1'"),
    (document(schema=None), "schema: Input should be 'bench.trusted/1'"),
    (document(logOrigin=""), "logOrigin: String should match pattern '^[^\\s+]+$'"),
    (document(logOrigin="two words"), "logOrigin: String should match pattern '^[^\\s+]+$'"),
    (document(logOrigin="a+b"), "logOrigin: String should match pattern '^[^\\s+]+$'"),
    (document(logOrigin="a\u2028b"), "logOrigin: String should match pattern '^[^\\s+]+$'"),
    (document(logOrigin="a\n"), "logOrigin: String should match pattern '^[^\\s+]+$'"),
    (document(logOrigin=None), "logOrigin: Input should be a valid string"),
    (document(keys={}), "keys: Input should be a valid tuple"),
    (document(keys=None), "keys: Input should be a valid tuple"),
    (document(owner="me"), "owner: Extra inputs are not permitted"),
    (document(log_origin="x"), "log_origin: Extra inputs are not permitted"),
    (document("key"), "keys[0]: Input should be a valid dictionary or instance of TrustedKey"),  # type: ignore[arg-type]
    (document(entry(), entry(1, more=1)), "keys[1].more: Extra inputs are not permitted"),
    (document(entry(valid_from_index=0)), "keys[0].valid_from_index: Extra inputs are not permitted"),
    (document(entry(status="retired")), 'keys[0]: Value error, a retired key needs "validToIndex"'),
    (document(entry(status="retired", revokedFromIndex=3)), 'keys[0]: Value error, a retired key needs "validToIndex"'),
    (document(entry(status="revoked")), 'keys[0]: Value error, a revoked key needs "revokedFromIndex"'),
    (document(entry(status="revoked", validToIndex=3)), 'keys[0]: Value error, a revoked key needs "revokedFromIndex"'),
]


@each_row(("content", "message"), UNREADABLE)
def test_an_invalid_trusted_json_is_key_unreadable_with_a_message(
    tmp_path: Path, content: object, message: str
) -> None:
    path = tmp_path / "trusted.json"
    error = refused(path, content)
    assert (error.code, error.message, error.hint) == ("key_unreadable", message, "restore the file")


PATTERN = "String should match pattern"
FIELDS: list[tuple[str, object, str]] = [
    ("name", "", PATTERN), ("name", ".hidden", PATTERN), ("name", "a/b", PATTERN), ("name", "é", PATTERN),
    ("name", "..", PATTERN), ("name", "a" * 101, PATTERN), ("name", "a\n", PATTERN), ("name", "a b", PATTERN),
    ("name", None, "Input should be a valid string"), ("name", 1, "Input should be a valid string"),
    ("fingerprint", "", PATTERN), ("fingerprint", "00" * 32, PATTERN), ("fingerprint", "SHA256:" + "0" * 64, PATTERN),
    ("fingerprint", "sha256:" + "A" * 64, PATTERN), ("fingerprint", OTHER + "\n", PATTERN),
    ("fingerprint", "sha256:" + "0" * 63, PATTERN), ("fingerprint", None, "Input should be a valid string"),
    ("publicKey", None, "Input should be a valid string"), ("publicKey", 1, "Input should be a valid string"),
    ("roles", None, "Input should be a valid tuple"), ("roles", "log", "Input should be a valid tuple"),
    ("status", "lost", "Input should be 'active', 'retired' or 'revoked'"),
    ("status", "Active", "Input should be 'active', 'retired' or 'revoked'"),
    ("status", None, "Input should be 'active', 'retired' or 'revoked'"),
    ("validFromIndex", -1, "Input should be greater than or equal to 0"),
    ("validFromIndex", "0", "Input should be a valid integer"),
    ("validFromIndex", None, "Input should be a valid integer"),
    ("validFromIndex", True, "Input should be a valid integer"),
    ("validFromIndex", 0.5, "Input should be a valid integer"),
    ("validToIndex", -1, "Input should be greater than or equal to 0"),
    ("validToIndex", "9", "Input should be a valid integer"),
    ("revokedFromIndex", -1, "Input should be greater than or equal to 0"),
    ("revokedFromIndex", [], "Input should be a valid integer"),
    ("reason", 1, "Input should be a valid string"),
]  # fmt: skip


@each_row(("field", "value", "words"), FIELDS)
def test_each_invalid_field_of_a_trusted_key_is_refused_with_a_message(
    tmp_path: Path, field: str, value: object, words: str
) -> None:
    path = tmp_path / "trusted.json"
    error = refused(path, document(entry(**{field: value})))
    assert (error.code, error.message.startswith(f"keys[0].{field}: {words}")) == ("key_unreadable", True)


@pytest.mark.parametrize("role", ["signer", "Log", "", None, 1])
def test_a_role_other_than_receipt_or_log_is_refused(path: Path, role: object) -> None:
    assert refused(path, document(entry(roles=["receipt", role]))).message == (
        "keys[0].roles[1]: Input should be 'receipt' or 'log'"
    )


@pytest.mark.parametrize("field", ["name", "fingerprint", "publicKey", "roles", "status"])
def test_each_field_of_a_trusted_key_without_default_is_required(path: Path, field: str) -> None:
    fields = entry()
    del fields[field]
    assert refused(path, document(fields)).message == f"keys[0].{field}: Field required"


def test_omitted_fields_of_trusted_json_have_their_defaults(path: Path) -> None:
    fields = entry()
    for name in ("validFromIndex", "validToIndex", "revokedFromIndex", "reason"):
        del fields[name]
    path.write_text(json.dumps({"keys": [fields]}))
    store = TrustStore.load(path)
    assert (store.origin, store.pinned) == (DEFAULT_ORIGIN, False)
    assert store.keys == (TrustedKey.of(KEYS[0], "key-0", ("receipt", "log")),)


BAD_KEYS: list[tuple[list[Json], str, str]] = [
    ([entry(fingerprint=OTHER)], "key_fingerprint", "key-0: the fingerprint does not match the key"),
    ([entry(fingerprint=KEYS[1].fingerprint)], "key_fingerprint", "key-0: the fingerprint does not match the key"),
    ([entry(), entry(1, publicKey=KEYS[0].pem)], "key_fingerprint", "key-1: the fingerprint does not match the key"),
    ([entry(), entry()], "key_duplicate", "the key key-0 occurs twice"),
    ([entry(), entry(name="again")], "key_duplicate", "the key again occurs twice"),
    ([entry(), entry(1, name="key-0")], "key_duplicate", "the key key-0 occurs twice"),
    ([entry(), entry(1), entry(2), entry(1, name="x", status="revoked", revokedFromIndex=1)], "key_duplicate",
     "the key x occurs twice"),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "code", "message"), BAD_KEYS)
def test_duplicate_keys_and_wrong_fingerprints_are_refused(
    path: Path, entries: list[Json], code: str, message: str
) -> None:
    error = refused(path, document(*entries))
    assert (error.code, error.message) == (code, message)


@each_row(
    ("pem", "code", "message"),
    [
        ("", "key_unreadable", "this is not a PEM public key"),
        ("junk", "key_unreadable", "this is not a PEM public key"),
        (SigningKey.from_raw(bytes(32)).pem().decode(), "key_unreadable", "this is not a PEM public key"),
        (KEYS[0].pem.replace("PUBLIC", "ΡUBLIC"), "key_unreadable", "this is not a PEM public key"),
        (KEYS[0].pem.replace("MCow", "MCow!"), "key_unreadable", "this is not a PEM public key"),
        (KEYS[0].pem[:60], "key_unreadable", "this is not a PEM public key"),
        (weak_pem("00" * 32), "weak_public_key", "the public key is weak: a point of small order"),
        (weak_pem("01" + "00" * 30 + "80"), "weak_public_key", "the public key is weak: a point of small order"),
    ],
)
def test_an_unreadable_or_weak_key_is_refused_with_the_name_of_its_entry(
    tmp_path: Path, pem: str, code: str, message: str
) -> None:
    path = tmp_path / "trusted.json"
    path.write_text(json.dumps(document(entry(publicKey=pem))))
    with pytest.raises(KeyRefused) as caught:
        TrustStore.load(path)
    assert (caught.value.code, caught.value.message, caught.value.where) == (code, message, "key-0")


def test_a_missing_trusted_json_trusts_no_key_and_an_unreadable_one_is_an_error(tmp_path: Path) -> None:
    assert TrustStore.load_or_empty(tmp_path / "none.json") == TrustStore(origin=DEFAULT_ORIGIN, keys=())
    with pytest.raises(KeyRefused) as caught:
        TrustStore.load(tmp_path / "none.json")
    assert str(caught.value) == f"{tmp_path / 'none.json'}: No such file or directory"
    with pytest.raises(KeyRefused, match="Is a directory"):
        TrustStore.load_or_empty(tmp_path)


def test_a_saved_trust_store_is_loaded_back_and_replaces_the_file(path: Path) -> None:
    store = TrustStore(origin="my.log", keys=(TrustedKey.of(KEYS[0], "a", ("receipt",), 7),))
    store.save(path)
    assert TrustStore.load(path) == store
    assert (path.stat().st_mode & 0o777, [p.name for p in path.parent.iterdir()]) == (0o644, ["trusted.json"])
    more = store.with_key(TrustedKey.of(KEYS[1], "b", ("log",)))
    more.save(path)
    assert [key.name for key in TrustStore.load(path).keys] == ["a", "b"]


def test_with_key_replaces_an_entry_in_place_or_appends_a_new_one() -> None:
    keys = tuple(TrustedKey.of(key, f"k{n}", ("receipt",)) for n, key in enumerate(KEYS))
    store = TrustStore(origin=None, keys=keys[:2])
    assert store.with_key(keys[2]).keys == keys
    changed = keys[0].model_copy(update={"status": "retired", "valid_to_index": 4})
    assert store.with_key(changed).keys == (changed, keys[1])
    assert store.with_key(keys[0]) == store


def test_named_finds_a_key_only_by_its_exact_name_or_fingerprint() -> None:
    store = TrustStore(origin=None, keys=tuple(TrustedKey.of(key, f"k{n}", ("log",)) for n, key in enumerate(KEYS[:2])))
    assert store.named("k1") is store.named(KEYS[1].fingerprint) is store.find(KEYS[1].fingerprint)
    with pytest.raises(KeyRefused) as caught:
        store.named("K1")
    assert (caught.value.message, caught.value.hint) == ("there is no key 'K1'", "known keys: k0, k1")
    with pytest.raises(KeyRefused, match="no key 'x'") as caught:
        TrustStore(origin=None, keys=()).named("x")
    assert caught.value.hint == "known keys: none"
    assert store.active("receipt") == () and len(store.active("log")) == 2


def test_pinned_keys_are_trusted_for_every_role_and_are_numbered() -> None:
    store = TrustStore.pin(KEYS)
    assert (store.origin, store.pinned, [key.name for key in store.keys]) == (
        None,
        True,
        ["pinned-1", "pinned-2", "pinned-3"],
    )
    assert store.decide(KEYS[2].fingerprint, "log", 5) == TrustDecision(trusted=True, code=None, detail="pinned-3")
    assert store.decide(OTHER, "log", 5).detail == f"the key {OTHER} is not one of the given public keys"


# ------------------------------------------------------------------ which key is trusted, for what

# status and range of the key, log index (None = not in the log), trusted, code, detail
DECISIONS: list[tuple[Json, int | None, bool, str | None, str]] = [
    ({}, None, True, None, "k"),
    ({}, 0, True, None, "k"),
    ({"valid_from_index": 5}, None, True, None, "k"),
    ({"valid_from_index": 5}, 4, False, "key_retired", "the key k is not valid for a document at log index 4"),
    ({"valid_from_index": 5}, 5, True, None, "k"),
    ({"status": "retired", "valid_to_index": 7}, None, False, "key_retired",
     "the key k is not valid for a document not in the log"),
    ({"status": "retired", "valid_to_index": 7}, 6, True, None, "k"),
    ({"status": "retired", "valid_to_index": 7}, 7, False, "key_retired",
     "the key k is not valid for a document at log index 7"),
    ({"status": "retired", "valid_to_index": 7, "valid_from_index": 7}, 7, False, "key_retired",
     "the key k is not valid for a document at log index 7"),
    ({"status": "revoked", "revoked_from_index": 3, "reason": "lost"}, 2, True, "key_revoked_later",
     "the key k was revoked later"),
    ({"status": "revoked", "revoked_from_index": 3, "reason": "lost"}, 3, False, "key_revoked",
     "the key k was revoked: lost; the document is at log index 3"),
    ({"status": "revoked", "revoked_from_index": 3, "reason": "lost"}, None, False, "key_revoked",
     "the key k was revoked: lost; the document is not in the log"),
    ({"status": "revoked", "revoked_from_index": 0, "reason": "lost"}, 0, False, "key_revoked",
     "the key k was revoked: lost; the document is at log index 0"),
    ({"status": "revoked", "revoked_from_index": 9, "valid_to_index": 4, "reason": "lost"}, 5, False, "key_revoked",
     "the key k was revoked: lost; the document is at log index 5"),
]  # fmt: skip


@each_row(("changes", "index", "trusted", "code", "detail"), DECISIONS)
def test_role_status_and_index_range_decide_whether_a_key_is_trusted(
    changes: Json, index: int | None, trusted: bool, code: str | None, detail: str
) -> None:
    store = TrustStore(origin=None, keys=(TrustedKey.of(KEYS[0], "k", ("receipt",)).model_copy(update=changes),))
    expected = TrustDecision(trusted=trusted, code=code, detail=detail)
    assert store.decide(KEYS[0].fingerprint, "receipt", index) == expected
    role = store.decide(KEYS[0].fingerprint, "log", index)
    assert role == TrustDecision(trusted=False, code="key_role", detail='the key k has no role "log"'), (
        "the role comes first"
    )


def test_an_unknown_key_is_not_trusted_and_named_by_its_fingerprint() -> None:
    store = TrustStore(origin=None, keys=())
    assert store.decide(OTHER, "receipt", 3) == TrustDecision(
        trusted=False, code="key_unknown", detail=f"the key {OTHER} is not in trusted.json"
    )


ranges = st.fixed_dictionaries(
    {
        "valid_from_index": st.integers(0, 9),
        "valid_to_index": st.integers(0, 9),
        "revoked_from_index": st.integers(0, 9),
    }
)


@given(ranges, st.integers(0, 9))
def test_a_key_of_any_status_is_trusted_exactly_within_its_index_ranges(changes: Json, index: int) -> None:
    def trusted(status: str) -> bool:
        key = TrustedKey.of(KEYS[0], "k", ("receipt",)).model_copy(update={**changes, "status": status, "reason": "x"})
        return TrustStore(origin=None, keys=(key,)).decide(KEYS[0].fingerprint, "receipt", index).trusted

    inside = changes["valid_from_index"] <= index < min(changes["valid_to_index"], changes["revoked_from_index"])
    assert [trusted(status) for status in ("active", "retired", "revoked")] == [inside] * 3


@pytest.mark.parametrize("order", [lambda keys: keys, lambda keys: keys[::-1]])
def test_the_order_of_trusted_keys_does_not_change_the_trust_check(desk: Any, order: Callable[[Any], Any]) -> None:
    entries = (TrustedKey.of(desk.key.public, "k", ("receipt",)), TrustedKey.of(KEYS[1], "other", ("receipt",)))
    outcome = desk.verify(desk.good(), trust=TrustStore(origin=None, keys=order(entries)))
    assert [(f.status, f.detail) for f in outcome.findings if f.check == "trust"] == [("ok", "k")]
