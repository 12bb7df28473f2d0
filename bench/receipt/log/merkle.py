"""RFC 6962 hash trees: compute roots in one pass.

Example::

    root([b"first line", b"second line"]).hex()[:8]      # "10621ace"
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


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
