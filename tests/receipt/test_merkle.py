"""Hash trees against the published vectors and their laws."""

from __future__ import annotations

import json
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
