"""``bench sheet``: the facts behind a result, from a run or a receipt, without any network call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.cli import console
from bench.cli.global_flags import current
from bench.cli.receipts import keyring
from bench.config.catalog import Catalog
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.receipt.sheet import EvidenceSheet


def sheet(
    target: str, /, *, benchmark: str | None = None, provider: str | None = None, html: Path | None = None
) -> int:
    """List 19 facts that a reader needs to judge a result, and mark the missing ones. Markdown or --json.

    Parameters
    ----------
    target
        A run of this workspace, a path to its journal, or a receipt file.
    benchmark
        Only this benchmark's jobs.
    provider
        Only this provider's jobs.
    html
        Write one page without external resources to this file instead.
    """
    from bench.report.rendering import grids_page, markdown

    sheets = _of_receipt(Path(target)) if _is_receipt(target) else anyio.run(_of_run, target, benchmark, provider)
    if not sheets:
        wanted = " on ".join(one for one in (provider, benchmark) if one) or "any provider"
        raise UsageError(f"run {target} has no job of {wanted}", hint="bench results shows its jobs")
    if current.get().json:
        console.json_value({"kind": "evidence_sheet", "version": 1, "sheets": [one.to_json() for one in sheets]})
    elif html is not None:
        from bench.report.publish import replace_text

        replace_text(html, grids_page(f"Evidence: {target}", [one.grid() for one in sheets]))
        console.line(str(html))
    else:
        console.raw("\n".join(markdown(one.grid()) for one in sheets))
    return 0


def _is_receipt(target: str) -> bool:
    return target.endswith(".json") and Path(target).is_file()


def _of_receipt(path: Path) -> list[EvidenceSheet]:
    from bench.receipt.receipt_sheet import receipt_sheet
    from bench.receipt.verify import VerificationRequest, verify_file

    found = verify_file(path, VerificationRequest(trust=keyring().trusted()))
    return [receipt_sheet(found, path)]


async def _of_run(target: str, benchmark: str | None, provider: str | None) -> list[EvidenceSheet]:
    from bench.journal import Reader
    from bench.journal.paths import find_run
    from bench.receipt.sheet import run_sheets

    workspace = current.get().workspace
    async with Reader.open(find_run(workspace, target)) as reader:
        return await run_sheets(reader, Catalog.load(workspace), benchmark=benchmark, provider=provider)
