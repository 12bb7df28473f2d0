"""Hash trees against the published vectors and their laws."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.receipt.log import merkle


def inclusion_proof(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """The sibling hashes from leaf ``index`` to the root, as RFC 6962, 2.1.1 defines them."""
    if len(hashes) <= 1:
        return []
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    if index < split:
        return [*inclusion_proof(hashes[:split], index), fold(hashes[split:])]
    return [*inclusion_proof(hashes[split:], index - split), fold(hashes[:split])]


def consistency_proof(hashes: Sequence[bytes], size1: int, *, whole: bool = True) -> list[bytes]:
    """The hashes that show that the first ``size1`` leaves stayed, as RFC 6962, 2.1.2 defines them."""
    if size1 == len(hashes):
        return [] if whole else [fold(hashes)]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    if size1 <= split:
        return [*consistency_proof(hashes[:split], size1, whole=whole), fold(hashes[split:])]
    return [*consistency_proof(hashes[split:], size1 - split, whole=False), fold(hashes[:split])]


def fold(hashes: Sequence[bytes]) -> bytes:
    frontier = merkle.Frontier()
    for leaf in hashes:
        frontier.append(leaf)
    return frontier.root()


def vectors(shared: Path, name: str) -> dict[str, object]:
    return json.loads((shared / "vectors" / "receipts" / name).read_text("utf-8"))  # type: ignore[no-any-return]


def leaves(count: int) -> list[bytes]:
    return [f"leaf-{index}".encode() for index in range(count)]


def hashes(count: int) -> list[bytes]:
    return [merkle.leaf_hash(data) for data in leaves(count)]


def test_roots_and_proofs_are_those_of_rfc_6962(shared: Path) -> None:
    told = vectors(shared, "merkle-rfc6962-roots.json")
    roots = {int(size): bytes.fromhex(text) for size, text in told["roots"].items()}  # type: ignore[attr-defined]
    assert {size: merkle.root(leaves(size)) for size in roots} == roots
    for case in told["inclusion"]:  # type: ignore[attr-defined]
        index, size = case["index"], case["size"]
        proof = [bytes.fromhex(text) for text in case["proof"]]
        assert inclusion_proof(hashes(size), index) == proof
        assert merkle.inclusion_ok(index, size, hashes(size)[index], proof, roots[size])
    for case in told["consistency"]:  # type: ignore[attr-defined]
        one, two = case["size1"], case["size2"]
        proof = [bytes.fromhex(text) for text in case["proof"]]
        assert consistency_proof(hashes(two), one) == proof
        assert merkle.consistency_ok(one, two, proof, roots[one], roots[two])


def test_published_inclusion_proofs_are_decided_as_written(shared: Path) -> None:
    for case in vectors(shared, "merkle-inclusion.json")["tests"]:  # type: ignore[attr-defined]
        proof = [b64decode(text) for text in case["proof"] or []]
        outcome = merkle.inclusion_ok(
            case["leafIdx"], case["treeSize"], b64decode(case["leafHash"] or ""), proof, b64decode(case["root"] or "")
        )
        assert outcome is not case["wantErr"], case["file"]


def test_published_consistency_proofs_are_decided_as_written(shared: Path) -> None:
    told = vectors(shared, "merkle-consistency.json")
    for case in told["tests"]:  # type: ignore[attr-defined]
        proof = [b64decode(text) for text in case["proof"] or []]
        outcome = merkle.consistency_ok(
            case["size1"], case["size2"], proof, b64decode(case["root1"] or ""), b64decode(case["root2"] or "")
        )
        refused = case["wantErr"] or case["file"] in told["product_override"]  # type: ignore[operator]
        assert outcome is not refused, case["file"]


@given(st.integers(1, 70), st.data())
def test_every_leaf_has_a_proof_and_no_other_leaf_fits_it(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(hashes(size), index)
    top = merkle.root(leaves(size))
    assert merkle.inclusion_ok(index, size, hashes(size)[index], proof, top)
    assert merkle.inclusion_ok(other, size, hashes(size)[other], proof, top) is (other == index)


@given(st.integers(1, 70), st.data())
def test_every_beginning_is_consistent_and_a_changed_one_is_not(size: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(1, size))
    proof = consistency_proof(hashes(size), start)
    old, new = merkle.root(leaves(start)), merkle.root(leaves(size))
    assert merkle.consistency_ok(start, size, proof, old, new)
    changed = merkle.root([*leaves(start)[:-1], b"another"])
    assert not merkle.consistency_ok(start, size, proof, changed, new)


def test_a_tree_that_grows_has_the_root_of_each_size() -> None:
    frontier = merkle.Frontier()
    assert frontier.root() == merkle.EMPTY_ROOT
    for size, leaf in enumerate(hashes(20), start=1):
        frontier.append(leaf)
        assert (frontier.size, frontier.root()) == (size, merkle.root(leaves(size)))
