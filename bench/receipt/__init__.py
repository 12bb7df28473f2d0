"""Signed statements about one job of one run, and their verification.

Where things are: ``signature`` and ``merkle`` know bytes alone; ``schema``, ``items_file``, ``digests``, ``checks``
and ``recompute`` know what a receipt states; ``totals`` and ``metadata`` what a report gives it; ``build`` and
``sign`` make one, ``verify`` decides, ``keys`` and ``trust_store`` say who may sign; ``log_store``, ``log_check`` and
``public_log`` keep them public.

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
