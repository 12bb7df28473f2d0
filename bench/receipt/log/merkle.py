"""RFC 6962 hash trees: compute roots in one pass, and check inclusion and consistency proofs.

    >>> root([b"first line", b"second line"]).hex()[:8]
    'b9b0b0d2'

A check returns False for a malformed proof, such as a hash that is not 32 bytes long; it never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()
HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of one leaf."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two subtrees."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """An append-only tree; it stores one hash per complete subtree, so it holds about log2(size) hashes."""

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash; complete subtrees are merged like carries in binary addition."""
        carry, position = leaf, self.size
        while position & 1:
            carry = node_hash(self._subtrees.pop(), carry)
            position >>= 1
        self._subtrees.append(carry)
        self.size += 1

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._subtrees:
            return EMPTY_ROOT
        *rest, whole = self._subtrees
        for subtree in reversed(rest):
            whole = node_hash(subtree, whole)
        return whole


def root(leaves: Iterable[bytes]) -> bytes:
    """Return the tree's root (32 bytes) over leaf data in order."""
    frontier = Frontier()
    for data in leaves:
        frontier.append(leaf_hash(data))
    return frontier.root()


def inclusion_ok(index: int, size: int, leaf_hash: bytes, proof: Sequence[bytes], root: bytes) -> bool:
    """Return True if ``proof`` leads from a leaf's hash to ``root`` (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or not _all_hashes(leaf_hash, root, *proof):
        return False
    node, last, whole = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            whole = node_hash(sibling, whole)
            node, last = _climb(node, last)
        else:
            whole = node_hash(whole, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and whole == root


def consistency_ok(size1: int, size2: int, proof: Sequence[bytes], root1: bytes, root2: bytes) -> bool:
    """Return True if ``proof`` shows that the tree of ``size1`` leaves is a prefix of that of ``size2``.

    The algorithm is that of RFC 9162, 2.1.4.2.
    """
    if not 0 <= size1 <= size2 or not _all_hashes(root1, root2, *proof):
        return False
    if size1 == size2:
        return not proof and root1 == root2
    if size1 == 0:
        return not proof and root1 == EMPTY_ROOT
    path = [root1, *proof] if size1 & (size1 - 1) == 0 else list(proof)
    if not path:
        return False
    return _both_roots(size1 - 1, size2 - 1, path) == (root1, root2)


def _both_roots(node: int, last: int, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the old and the new root from one path; None if the path has the wrong length."""
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return None
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            node, last = _climb(node, last)
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    return (old, new) if last == 0 else None


def _climb(node: int, last: int) -> tuple[int, int]:
    """Skip the levels at which ``node`` is a right edge without sibling."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _all_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
