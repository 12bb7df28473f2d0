"""Merkle trees of RFC 6962: compute the root hash in one pass over the leaves, and check proofs.

Example::

    root([b"first line", b"second line"]).hex()[:8]      # "10621ace"

The checks of proofs are for programs that read the log, such as monitors. A malformed proof gives False, never an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()
HASH_BYTES = 32


def leaf_hash(data: bytes) -> bytes:
    """Return the SHA-256 of one leaf, with the leaf prefix 0x00 of RFC 6962."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the parent node, from the root hashes of its two subtrees."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A Merkle tree to which leaves can only be appended. It stores about log2(size) hashes instead of all leaves."""

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Append the hash of one leaf to the tree."""
        carry, position = leaf, self.size
        while position & 1:
            carry = node_hash(self._subtrees.pop(), carry)
            position >>= 1
        self._subtrees.append(carry)
        self.size += 1

    def root(self) -> bytes:
        """Return the root hash (32 bytes) over all leaves that were appended so far."""
        if not self._subtrees:
            return EMPTY_ROOT
        *rest, whole = self._subtrees
        for subtree in reversed(rest):
            whole = node_hash(subtree, whole)
        return whole


def root(leaves: Iterable[bytes]) -> bytes:
    """Return the root hash (32 bytes) of a tree; ``leaves`` are the bytes of the leaves in order."""
    frontier = Frontier()
    for data in leaves:
        frontier.append(leaf_hash(data))
    return frontier.root()


def inclusion_ok(index: int, size: int, leaf_hash: bytes, proof: Sequence[bytes], root: bytes) -> bool:
    """Return True if ``proof`` leads from the hash of leaf ``index`` to the ``root`` of ``size`` leaves.

    The algorithm is that of RFC 9162, section 2.1.3.2.
    """
    if not 0 <= index < size or not _are_hashes(leaf_hash, root, *proof):
        return False
    node, last, whole = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            whole = node_hash(sibling, whole)
            node, last = _skip_right_edge(node, last)
        else:
            whole = node_hash(whole, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and whole == root


def consistency_ok(size1: int, size2: int, proof: Sequence[bytes], root1: bytes, root2: bytes) -> bool:
    """Return True if ``proof`` shows that the tree of ``size1`` leaves is the beginning of the tree of ``size2``.

    The algorithm is that of RFC 9162, section 2.1.4.2.
    """
    if not 0 <= size1 <= size2 or not _are_hashes(root1, root2, *proof):
        return False
    if size1 == size2:
        return not proof and root1 == root2
    if size1 == 0:
        return not proof and root1 == EMPTY_ROOT
    path = [root1, *proof] if size1 & (size1 - 1) == 0 else list(proof)
    return bool(path) and _both_roots(size1 - 1, size2 - 1, path) == (root1, root2)


def _both_roots(node: int, last: int, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the old and the new root hash from one path, or None if the path has the wrong length."""
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return None
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            node, last = _skip_right_edge(node, last)
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    return (old, new) if last == 0 else None


def _skip_right_edge(node: int, last: int) -> tuple[int, int]:
    """Return both positions after moving them up the tree until ``node`` is 0 or a right child (odd)."""
    while node and not node & 1:
        node, last = node >> 1, last >> 1
    return node, last


def _are_hashes(*values: bytes) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
