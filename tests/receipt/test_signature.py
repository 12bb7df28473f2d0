"""The signature layer: published vectors, encodings, weak keys, other implementations."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import bench.receipt
from bench.canonical import dumps, parse, sha256_hex
from bench.errors import BenchError, CanonicalError, VerificationError
from bench.receipt.signing.signature import (
    KeyRefused,
    PublicKey,
    SigningKey,
    is_valid_signature,
    sign,
    signed_bytes,
    verify_document,
)


def vector(shared: Path, name: str) -> list[dict[str, str]]:
    return json.loads((shared / "vectors" / "receipts" / name).read_text("utf-8"))["tests"]  # type: ignore


def test_signed_document_vectors_verify_and_have_the_published_bytes(shared: Path) -> None:
    for test in vector(shared, "native-signature.json"):
        document = verify_document(test["document"].encode(), test["public_key_pem"].encode())
        assert signed_bytes(document).hex() == test["canonical_hex"]
        assert sha256_hex(signed_bytes(document)) == test["canonical_sha256"]
        assert PublicKey.from_pem(test["public_key_pem"].encode()).fingerprint == test["fingerprint"]


def test_signature_encoding_vectors_are_accepted_or_rejected_as_published(shared: Path) -> None:
    native = next(test for test in vector(shared, "native-signature.json") if test["name"] == "unicode")
    document = json.loads(native["document"])
    for test in vector(shared, "signature-encoding.json"):
        document["signature"]["value"] = test["value"]
        try:
            verify_document(dumps(document), native["public_key_pem"].encode())
            outcome = "valid"
        except VerificationError as error:
            outcome = error.code
        assert outcome == test["expect"], test["name"]


def test_signatures_match_the_rfc_8032_vectors(shared: Path) -> None:
    for test in vector(shared, "ed25519-rfc8032.json"):
        secret = next(test[name] for name in ("secret", "sk", "secret_key", "secretKey") if name in test)
        key = SigningKey.from_raw(bytes.fromhex(secret)[:32])
        message = next(test[name] for name in ("message", "msg") if name in test)
        signature = next(test[name] for name in ("signature", "sig") if name in test)
        assert key.sign(bytes.fromhex(message)).hex() == signature


def accepted(public: str, signature: str, message: str) -> bool:
    try:
        key = PublicKey.from_raw(bytes.fromhex(public))
    except KeyRefused:
        return False
    return is_valid_signature(key, bytes.fromhex(signature), bytes.fromhex(message))


def test_wycheproof_signatures_are_accepted_or_rejected_as_published(shared: Path) -> None:
    for test in vector(shared, "ed25519-wycheproof.json"):
        assert accepted(test["pk"], test["sig"], test["msg"]) is (test["result"] == "valid"), test["tcId"]


def test_the_fourteen_weak_keys_and_edge_case_signatures_are_refused(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/receipts/ed25519-weak-keys.json").read_text())
    assert len(vectors["tests"]) == 14
    for test in vectors["tests"]:
        with pytest.raises(KeyRefused) as caught:
            PublicKey.from_raw(bytes.fromhex(test["public"]))
        assert caught.value.code == caught.value.kind == "weak_public_key"
    for case in vectors["speccheck"]:
        if case["product"] == "reject":
            assert not accepted(case["pub_key"], case["signature"], case["message"]), case["case"]


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.from_raw(bytes(range(32)))


def code_of(document: object, pem: str) -> str:
    with pytest.raises(BenchError) as caught:
        bench.receipt.verify_document(dumps(document), pem.encode())
    error = caught.value
    assert isinstance(error, VerificationError | CanonicalError | KeyRefused)
    return error.code


def test_verify_document_returns_the_signed_document(key: SigningKey) -> None:
    signed = sign({"schema": "x", "n": 1.0, "signature": "old"}, key)
    assert verify_document(dumps(signed), key.public.pem.encode()) == parse(dumps(signed))


def test_each_fault_of_the_signature_has_its_code(key: SigningKey) -> None:
    good, pem = sign({"a": 1}, key), key.public.pem
    signature = good["signature"]
    assert isinstance(signature, dict)
    other = "sha256:" + "0" * 64
    assert code_of({"a": 1}, pem) == "signature_missing"
    assert code_of({**good, "signature": None}, pem) == "signature_missing"
    assert code_of([good], pem) == "signature_missing"
    assert code_of({**good, "signature": {**signature, "keyid": "x"}}, pem) == "field_unknown"
    assert code_of({**good, "signature": {**signature, "algorithm": "ed25519"}}, pem) == "algorithm_unsupported"
    assert code_of({**good, "signer": {**signature, "algorithm": "none"}}, pem) == "algorithm_unsupported"
    assert code_of({**good, "signature": {**signature, "publicKeyFingerprint": other}}, pem) == "fingerprint_mismatch"
    assert code_of({**good, "a": 2}, pem) == "signature_invalid"
    assert code_of(good, SigningKey.generate().public.pem) == "fingerprint_mismatch"


def test_openssl_agrees_on_fingerprint_and_signature(key: SigningKey, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    (tmp_path / "pub.pem").write_text(key.public.pem)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-in", "pub.pem", "-outform", "DER"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert "sha256:" + sha256_hex(der.stdout) == key.public.fingerprint
    (tmp_path / "m").write_bytes(b"message")
    (tmp_path / "s").write_bytes(key.sign(b"message"))
    command = "openssl pkeyutl -verify -rawin -in m -sigfile s -pubin -inkey pub.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
