"""Hash trees against the published vectors and their laws."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path

from bench.receipt import merkle


def vectors(shared: Path, name: str) -> dict[str, object]:
    return json.loads((shared / "vectors" / "receipts" / name).read_text("utf-8"))  # type: ignore[no-any-return]


def leaves(count: int) -> list[bytes]:
    return [f"leaf-{index}".encode() for index in range(count)]


def hashes(count: int) -> list[bytes]:
    return [merkle.leaf_hash(data) for data in leaves(count)]


def test_merkle_roots_match_the_rfc_6962_vectors(shared: Path) -> None:
    vector = vectors(shared, "merkle-rfc6962-roots.json")
    roots = {int(size): bytes.fromhex(text) for size, text in vector["roots"].items()}  # type: ignore[attr-defined]
    assert {size: merkle.root(leaves(size)) for size in roots} == roots


def test_a_growing_frontier_has_the_root_of_each_size() -> None:
    frontier = merkle.Frontier()
    assert frontier.root() == merkle.EMPTY_ROOT
    for size, leaf in enumerate(hashes(20), start=1):
        frontier.append(leaf)
        assert (frontier.size, frontier.root()) == (size, merkle.root(leaves(size)))


def test_merkle_proofs_of_the_rfc_6962_vectors_are_accepted(shared: Path) -> None:
    vector = vectors(shared, "merkle-rfc6962-roots.json")
    roots = {int(size): bytes.fromhex(text) for size, text in vector["roots"].items()}  # type: ignore[attr-defined]
    for case in vector["inclusion"]:  # type: ignore[attr-defined]
        index, size, proof = case["index"], case["size"], [bytes.fromhex(text) for text in case["proof"]]
        assert merkle.inclusion_ok(index, size, hashes(size)[index], proof, roots[size]), case
    for case in vector["consistency"]:  # type: ignore[attr-defined]
        size1, size2, proof = case["size1"], case["size2"], [bytes.fromhex(text) for text in case["proof"]]
        assert merkle.consistency_ok(size1, size2, proof, roots[size1], roots[size2]), case


def test_published_inclusion_proofs_are_accepted_or_refused_as_published(shared: Path) -> None:
    for case in vectors(shared, "merkle-inclusion.json")["tests"]:  # type: ignore[attr-defined]
        proof = [b64decode(text) for text in case["proof"] or []]
        accepted = merkle.inclusion_ok(
            case["leafIdx"], case["treeSize"], b64decode(case["leafHash"] or ""), proof, b64decode(case["root"] or "")
        )
        assert accepted is not case["wantErr"], case["file"]


def test_published_consistency_proofs_are_accepted_or_refused_as_published(shared: Path) -> None:
    vector = vectors(shared, "merkle-consistency.json")
    for case in vector["tests"]:  # type: ignore[attr-defined]
        proof = [b64decode(text) for text in case["proof"] or []]
        root1, root2 = b64decode(case["root1"] or ""), b64decode(case["root2"] or "")
        accepted = merkle.consistency_ok(case["size1"], case["size2"], proof, root1, root2)
        refused = case["wantErr"] or case["file"] in vector["product_override"]  # type: ignore[operator]
        assert accepted is not refused, case["file"]
