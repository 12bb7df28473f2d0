"""Receipts: signed statements about one job of one run, and their verification.

``schema``, ``items_file`` and ``digests`` define a receipt. ``build`` creates a receipt from a report, with the help of
``totals`` and ``metadata``. ``signing`` manages keys and signs receipts. ``verification`` checks receipts and decides
the verdict. ``log`` is the public log.

    >>> from bench.receipt import verify_document
    >>> verify_document(open("receipt.json", "rb").read(), open("key.pub", "rb").read())   # raises with .code
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.rooms import lazy_exports

if TYPE_CHECKING:
    from bench.receipt.signing.signature import verify_document

__all__ = ["verify_document"]

__getattr__ = lazy_exports(
    __name__,
    **{"signing.signature": "verify_document"},
)
