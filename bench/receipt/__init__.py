"""Signed statements about one job of one run, and everything that checks them.

Rooms: ``signature`` and ``merkle`` know bytes alone; ``schema``, ``items``, ``digests``, ``invariants`` and
``recompute`` know what a receipt says; ``verify`` decides; ``build`` and ``sign`` make one; ``log`` keeps them public.

    >>> from bench.receipt import verify_document
    >>> verify_document(open("receipt.json", "rb").read(), open("key.pub", "rb").read())   # raises with .code

"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.rooms import front

if TYPE_CHECKING:
    from bench.receipt.signature import verify_document

__all__ = ["verify_document"]

__getattr__ = front(
    __name__,
    signature="verify_document",
)
