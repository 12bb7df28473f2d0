"""Merkle trees of RFC 6962: compute the root hash in one pass over the leaves.

Example::

    root([b"first line", b"second line"]).hex()[:8]      # "10621ace"
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


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
