"""Signed statements about one job of one run, and their verification.

Modules: ``signature`` and ``merkle`` work on bytes. ``schema``, ``items_file`` and ``digests`` define a receipt;
``checks`` and ``recompute`` verify its content. ``totals`` and ``metadata`` convert a report; ``build`` and ``sign``
create a receipt, and ``verify`` decides its verdict. ``keys`` and ``trust_store`` manage the keys that may sign.
``log_store``, ``log_check`` and ``public_log`` implement the public log.

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
