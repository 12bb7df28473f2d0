"""The published and our own vectors of canonical JSON."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import pathlib
import struct
import uuid
from hashlib import sha256

import pytest

from bench.canonical import digest, dumps, parse, sha256_hex
from bench.errors import CanonicalError


def load(shared: pathlib.Path, name: str) -> list[dict[str, object]]:
    return json.loads((shared / "vectors" / "receipts" / name).read_text("utf-8"))["tests"]


def input_bytes(test: dict[str, object]) -> bytes:
    if "input_hex" in test:
        return bytes.fromhex(str(test["input_hex"]))
    parts = test["input_repeat"]
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts).encode()  # type: ignore


def test_every_strict_json_vector_is_accepted_or_rejected_as_published(shared: pathlib.Path) -> None:
    wrong = []
    for test in load(shared, "strict-json-admission.json"):
        try:
            outcome = dumps(parse(input_bytes(test))).decode()
        except CanonicalError as error:
            outcome = error.code
        if outcome != test.get("canonical", test.get("code")):
            wrong.append((test["name"], outcome))
    assert wrong == []


def test_every_python_value_vector_is_written_or_rejected_as_published(shared: pathlib.Path) -> None:
    modules = {m.__name__: m for m in (decimal, datetime, uuid, pathlib, functools)}
    for test in load(shared, "python-values.json"):
        value = eval(str(test["python"]), dict(modules))
        if test["expect"] == "accept":
            assert dumps(value).decode() == test["canonical"]
            continue
        with pytest.raises(CanonicalError) as caught:
            dumps(value)
        assert caught.value.code == test["code"], test["name"]
        assert str(test.get("path", "")) in str(caught.value)
        assert caught.value.path.endswith(str(test.get("path", "")))


def test_cyberphone_documents_have_their_published_canonical_bytes(shared: pathlib.Path) -> None:
    for test in load(shared, "jcs-cyberphone-documents.json"):
        data = bytes.fromhex(str(test["input_utf8_hex"]))
        if test["receipt_profile"] == "canonical":
            assert dumps(parse(data)).hex() == test["canonical_utf8_hex"]
            assert digest(parse(data)) == test["sha256"]
        else:
            with pytest.raises(CanonicalError) as caught:
                parse(data)
            assert caught.value.code == test["receipt_profile_code"]


def number(bits: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))[0])


def test_numbers_of_rfc8785_appendix_b_are_written_as_published_or_rejected(shared: pathlib.Path) -> None:
    for test in load(shared, "jcs-rfc8785-appendix-b-numbers.json"):
        value = number(str(test["ieee754_hex"]))
        if test["receipt_profile"] == "accept":
            assert dumps([value]).decode() == f"[{test['canonical']}]"
        else:
            with pytest.raises(CanonicalError):
                dumps([value])


def test_ten_thousand_es6_numbers_are_written_as_published(shared: pathlib.Path) -> None:
    lines = json.loads((shared / "vectors/receipts/jcs-es6-numbers-10000.json").read_text())["lines"]
    written = refused = 0
    for line in lines:
        bits, text = line.split(",")
        value = number(bits)
        if abs(value) > 2**53 - 1:
            with pytest.raises(CanonicalError):
                dumps(value)
            refused += 1
        else:
            assert dumps(value).decode() == text
            written += 1
    assert written + refused == 10_000 and written > 1_000
    published = sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert published == "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"


def test_a_document_above_64_mebibytes_is_rejected_before_it_is_decoded() -> None:
    with pytest.raises(CanonicalError) as caught:
        parse(b"\xff" * (64 * 1024 * 1024 + 1))
    assert caught.value.code == "too_large"


def test_a_list_that_contains_itself_is_rejected_as_too_deep() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(CanonicalError) as caught:
        dumps(loop)
    assert caught.value.code == "too_deep"


def test_sha256_hex_returns_lower_case_hex() -> None:
    assert sha256_hex(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
