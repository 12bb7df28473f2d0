"""Receipts: signed statements about one job of one run, and their verification.

``schema`` and ``items_file`` define the two files of a receipt. ``build`` creates a receipt, ``signing`` signs it,
``verification`` checks it, and ``log`` publishes it.

    >>> from bench.receipt import verify_document
    >>> verify_document(open("receipt.json", "rb").read(), open("key.pub", "rb").read())   # raises with .code
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from bench.receipt.signing.signature import verify_document

__all__ = ["verify_document"]

__getattr__ = lazy_exports(
    __name__,
    **{"signing.signature": "verify_document"},
)
