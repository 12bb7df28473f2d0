"""Tampering without the key: every change of a signed document is detected, and another spelling of it is valid."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.canonical import dumps, parse
from bench.errors import BenchError
from bench.receipt.signing.signature import PublicKey, SigningKey, decode, encode, sign, signed_bytes, verify_document
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from tests.rows import each_row

KEY = SigningKey.from_raw(bytes(range(32)))
OTHER = SigningKey.from_raw(bytes(range(1, 33)))
FOLDED = {"signature", "signer"}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of each scalar of a document."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def altered(value: Any) -> Any:
    """Return another value of the same kind that the schema accepts too."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2
    if value is None:
        return None
    return {"a": "b", "0": "1"}.get(value[:1], value[:1]) + value[1:] if len(value) in (16, 40, 64) else value + "x"


GOOD = make.with_digests(make.body(make.default_rows()))
SIGNED = sign(GOOD, KEY)


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def with_change(path: tuple[str | int, ...]) -> dict[str, Any] | None:
    """Return the signed document with one leaf altered; None if the leaf has no other value of its kind."""
    document: dict[str, Any] = make.deep_copy(SIGNED)
    parent, value = at(document, path[:-1]), at(document, path)
    if altered(value) == value or altered(value) is None:
        return None
    parent[path[-1]] = altered(value)
    return document


def test_every_value_of_a_receipt_is_covered_by_the_signature() -> None:
    judged = 0
    for path in leaves(GOOD):
        document = with_change(path)
        if document is None:
            continue
        judged += 1
        with pytest.raises(BenchError) as caught:
            verify_document(dumps(document), KEY.public.pem.encode())
        assert getattr(caught.value, "code", None) == "signature_invalid", path
    assert judged > 150


@each_row("section", sorted(set(GOOD) - {"schema"}))
def test_a_changed_section_is_signature_invalid_or_field_value(tmp_path: Path, section: str) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    document = json.loads(path.read_bytes())
    changes = [place for place in leaves(GOOD) if place[0] == section and with_change(place) is not None]
    for place in changes[:12]:
        changed = make.deep_copy(document)
        at(changed, place[:-1])[place[-1]] = altered(at(changed, place))
        path.write_bytes(dumps(changed))
        found = make.codes(desk.verify(path))
        assert "signature_invalid" in found or found == {"field_value"}, (place, found)
        assert desk.verify(path).verdict is ReceiptVerdict.INVALID


# ------------------------------------------------------------------------- spellings

SPELLINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("white space", lambda data: data.replace(b",", b" ,\r\n\t ")),
    ("sorted the other way", lambda data: json.dumps(dict(sorted(json.loads(data).items(), reverse=True))).encode()),
    ("escapes", lambda data: data.replace(b'"demo"', b'"\\u0064emo"')),
    ("1.0 for 1", lambda data: data.replace(b'"epochs":1', b'"epochs":1.0')),
    ("10e-1 for 1", lambda data: data.replace(b'"epochs":1', b'"epochs":10e-1')),
    ("-0 for 0", lambda data: data.replace(b'"seed":0', b'"seed":-0')),
    ("a line break at the end", lambda data: data + b"\n\n"),
]


@pytest.mark.parametrize("spell", [one[1] for one in SPELLINGS], ids=[one[0] for one in SPELLINGS])
def test_another_json_spelling_of_a_signed_receipt_is_valid(desk: Any, spell: Callable[[bytes], bytes]) -> None:
    path = desk.good()
    data = dumps(json.loads(path.read_bytes()))
    spelled = spell(data)
    assert spelled != data
    path.write_bytes(spelled)
    assert desk.verify(path).verdict is ReceiptVerdict.VALID


ADMISSION: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("bom", lambda data: b"\xef\xbb\xbf" + data, "the document begins with a byte order mark"),
    ("not_utf8", lambda data: data.replace(b'"demo"', b'"\xc3\x28"'), " is not UTF-8"),
    ("not_utf8", lambda data: data.decode().encode("utf-16"), " is not UTF-8"),
    ("syntax", lambda data: data[: len(data) // 2], " at line 1 column "),
    ("syntax", lambda data: data + b"{}", "Extra data at line 1 column "),
    ("syntax", lambda data: b"", "Expecting value at line 1 column 1"),
    ("syntax", lambda data: data.replace(b'"seed":0', b'"seed":00'), " at line 1 column "),
    ("duplicate_key", lambda data: data.replace(b'"seed":0', b'"seed":0,"seed":0'), "run.seed: the key occurs twice"),
    (
        "duplicate_key",
        lambda data: data.replace(b'"seed":0', b'"seed":0,"\\u0073eed":9'),
        "run.seed: the key occurs twice",
    ),
    ("duplicate_key", lambda data: data[:-1] + b',"signature":null}', "signature: the key occurs twice in one object"),
    (
        "integer_out_of_range",
        lambda data: data.replace(b'"seed":0', b'"seed":9007199254740992'),
        "run.seed: an integer",
    ),
    ("number_out_of_range", lambda data: data.replace(b'"seed":0', b'"seed":1e17'), "run.seed: a number"),
    ("number_not_finite", lambda data: data.replace(b'"seed":0', b'"seed":-Infinity'), "run.seed: NaN and"),
    ("lone_surrogate", lambda data: data.replace(b'"demo"', b'"\\udead"'), "benchmark.name: half of a surrogate"),
    (
        "too_deep",
        lambda data: data.replace(b'"filter":{}', b'"filter":' + b'{"a":' * 62 + b"0" + b"}" * 62),
        "more than 64",
    ),
]


@each_row(("code", "spoil", "words"), ADMISSION)
def test_a_document_that_is_not_strict_json_fails_parse_and_skips_all_other_checks(
    tmp_path: Path, code: str, spoil: Callable[[bytes], bytes], words: str
) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    path.write_bytes(spoil(dumps(json.loads(path.read_bytes()))))
    first, *rest = desk.verify(path).findings
    assert (first.check, first.status, first.code) == ("parse", "fail", code)
    assert words in first.detail
    assert {(f.status, f.detail) for f in rest} == {("skip", "not checked, because parse failed")} and len(rest) == 10


def test_a_receipt_with_64_levels_of_nesting_is_valid(desk: Any) -> None:
    nested: Any = 0
    for _ in range(60):
        nested = {"a": nested}
    assert desk.verify(desk.good(benchmark__selection__filter=nested)).verdict is ReceiptVerdict.VALID


# ------------------------------------------------------------------------- the signature block


RAW = decode(SIGNED["signature"]["value"])  # type: ignore[call-overload,index]
L = 2**252 + 27742317777372353535851937790883648493
S_PLUS_L = RAW[:32] + ((int.from_bytes(RAW[32:], "little") + L) % 2**256).to_bytes(32, "little")

SIGNATURES: list[tuple[str, Any, str]] = [
    ("padded", SIGNED["signature"]["value"] + "==", "bad_signature_encoding"),
    # type: ignore[call-overload,index,operator]
    ("standard alphabet", base64.b64encode(b"\xfb\xff" * 32).decode().rstrip("="), "bad_signature_encoding"),
    ("hex", RAW.hex(), "bad_signature_encoding"),
    ("line break inside", encode(RAW)[:40] + "\n" + encode(RAW)[40:], "bad_signature_encoding"),
    ("line break at the end", encode(RAW) + "\n", "bad_signature_encoding"),
    ("space in front", " " + encode(RAW), "bad_signature_encoding"),
    ("85 characters", encode(RAW)[:-1], "bad_signature_encoding"),
    ("87 characters", encode(RAW) + "A", "bad_signature_encoding"),
    ("full-width letters", "\uff21" * 86, "bad_signature_encoding"),
    ("a bit that no byte holds", encode(RAW)[:-1] + "_", "bad_signature_encoding"),
    ("empty", "", "bad_signature_encoding"),
    ("zeros", encode(bytes(64)), "signature_invalid"),
    ("S + L", encode(S_PLUS_L), "signature_invalid"),
    ("halves swapped", encode(RAW[32:] + RAW[:32]), "signature_invalid"),
    ("one bit flipped", encode(bytes([RAW[0] ^ 1]) + RAW[1:]), "signature_invalid"),
    ("by another key", encode(OTHER.sign(signed_bytes(SIGNED))), "signature_invalid"),
    ("over the file's bytes", encode(KEY.sign(json.dumps(GOOD).encode())), "signature_invalid"),
    ("over the body without signer", encode(KEY.sign(dumps(GOOD))), "signature_invalid"),
    ("over the hash", encode(KEY.sign(sha256(signed_bytes(SIGNED)).digest())), "signature_invalid"),
]


@each_row(("value", "code"), [one[1:] for one in SIGNATURES])
def test_a_badly_encoded_or_false_signature_value_has_its_code(tmp_path: Path, value: str, code: str) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    document = json.loads(path.read_bytes())
    assert document["signature"] == SIGNED["signature"], "the same rows under the same key"
    document["signature"]["value"] = value
    path.write_bytes(dumps(document))
    outcome = desk.verify(path)
    assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.INVALID, {code})


PRINT, OTHERS = KEY.public.fingerprint, OTHER.public.fingerprint
BLOCKS: list[tuple[str, Callable[[Any], object], set[str]]] = [
    ("no signature", lambda d: d.pop("signature"), {"signature_missing"}),
    ("null", lambda d: d.update(signature=None), {"field_type"}),
    ("a text", lambda d: d.update(signature=encode(RAW)), {"field_type"}),
    ("a list of one", lambda d: d.update(signature=[d["signature"]]), {"field_type"}),
    ("a fourth field", lambda d: d["signature"].update(keyid="x"), {"field_unknown"}),
    ("no value", lambda d: d["signature"].pop("value"), {"field_missing"}),
    ("no algorithm", lambda d: d["signature"].pop("algorithm"), {"field_missing"}),
    ("a number", lambda d: d["signature"].update(value=1), {"field_type"}),
    ("algorithm none", lambda d: d["signature"].update(algorithm="none"), {"algorithm_unsupported"}),
    ("algorithm EdDSA", lambda d: d["signature"].update(algorithm="EdDSA"), {"algorithm_unsupported"}),
    ("algorithm ed25519", lambda d: d["signature"].update(algorithm="ed25519"), {"algorithm_unsupported"}),
    ("algorithm Ed25519ph", lambda d: d["signature"].update(algorithm="Ed25519ph"), {"algorithm_unsupported"}),
    ("algorithm with Cyrillic", lambda d: d["signature"].update(algorithm="Еd25519"), {"algorithm_unsupported"}),
    ("signer of another algorithm", lambda d: d["signer"].update(algorithm="RSA"), {"algorithm_unsupported"}),
    ("no signer", lambda d: d.pop("signer"), {"field_missing"}),
    ("another key in the signature", lambda d: d["signature"].update(publicKeyFingerprint=OTHERS),
    {"fingerprint_mismatch"}),
    ("another key in both", lambda d: (d["signature"].update(publicKeyFingerprint=OTHERS),
                                       d["signer"].update(publicKeyFingerprint=OTHERS)), {"key_unknown"}),
    ("upper-case fingerprint", lambda d: (d["signature"].update(publicKeyFingerprint=PRINT.upper()),
                                          d["signer"].update(publicKeyFingerprint=PRINT.upper())), {"key_unknown"}),
]  # fmt: skip


@each_row(("change", "codes"), [one[1:] for one in BLOCKS])
def test_a_malformed_signature_or_signer_block_has_its_code(
    tmp_path: Path, change: Callable[[Any], object], codes: set[str]
) -> None:
    desk = make.desk_in(tmp_path)
    path = desk.good()
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(dumps(document))
    assert make.codes(desk.verify(path)) == codes


def test_a_receipt_signed_again_by_an_unknown_key_is_untrusted(desk: Any, tmp_path: Path) -> None:
    path = desk.good()
    body = {name: value for name, value in json.loads(path.read_bytes()).items() if name not in FOLDED}
    path.write_bytes(dumps(sign(body, OTHER)))
    outcome = desk.verify(path)
    assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.UNTRUSTED, {"key_unknown"})
    assert [f.detail for f in outcome.findings if f.check == "signature"] == ["not checked: the key is not known"]
    assert desk.verify(path, trust=TrustStore.pin([OTHER.public])).verdict is ReceiptVerdict.VALID
    both = TrustStore.pin([OTHER.public, desk.key.public])
    assert desk.verify(desk.good(), trust=both).verdict is ReceiptVerdict.VALID


def test_a_nested_field_named_signature_is_signed_like_other_fields() -> None:
    document = sign({"schema": "x", "a": {"signature": "kept"}, "signature": "dropped"}, KEY)
    assert parse(signed_bytes(document))["a"] == {"signature": "kept"}  # type: ignore[call-overload,index]
    document["a"]["signature"] = "changed"  # type: ignore[call-overload,index]
    with pytest.raises(BenchError) as caught:
        verify_document(dumps(document), KEY.public.pem.encode())
    assert getattr(caught.value, "code", None) == "signature_invalid"


def test_trust_depends_on_the_bytes_of_a_key_and_not_on_its_name(desk: Any) -> None:
    renamed = desk.store(name="OTHER")
    assert desk.verify(desk.good(), trust=renamed).verdict is ReceiptVerdict.VALID
    assert PublicKey.from_pem(KEY.public.pem.encode()).fingerprint == PRINT
