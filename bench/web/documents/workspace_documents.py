"""Create the documents of the configs and receipts of a workspace.

A receipt is verified again when a receipt, a trusted key or the public log has changed.

Example::

    await configs_document(site)
    (await receipts_document(site))["receipts"][0]["verdict"]

A config contains the names of variables with secrets, but not the secrets. Any text that looks like a key is redacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from bench.config.catalog import KINDS, Catalog, CatalogEntry
from bench.errors import BenchError, ConfigError
from bench.events import redact
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.cache import LONG_WAIT_S, SHORT_WAIT_S, SMALL_ITEMS, Stamp, make_off_loop, stamp_of
from bench.web.documents.receipt_summary import summary_of
from bench.web.errors import NotFound

if TYPE_CHECKING:
    from bench.receipt.verification.verify import VerificationOutcome


SHOWN_CHARS = 200_000

_problems_by_file: dict[tuple[Path, Stamp], list[Json]] = {}


async def configs_document(site: Site) -> Json:
    """Return every config with the problems that were found in it."""
    found = await anyio.to_thread.run_sync(all_configs, site.workspace)
    for entry in found["providers"]:
        assert isinstance(entry["needs"], list)
        entry["unset"] = [name for name in entry["needs"] if not site.environment.get(name)]
    return {**found}


def all_configs(workspace: Path) -> dict[str, list[Json]]:
    """Return kind -> configs of this kind. A config is checked again only if its file has changed."""
    catalog = Catalog.load(workspace)
    return {kind: [_entry(catalog, workspace, entry) for entry in catalog.entries(kind)] for kind in KINDS}


def _entry(catalog: Catalog, workspace: Path, entry: CatalogEntry) -> Json:
    problems = _problems(catalog, entry)
    return {
        "name": entry.name,
        "kind": entry.kind,
        "title": entry.display_name,
        "description": entry.description,
        "tags": list(entry.tags),
        "builtin": entry.builtin,
        "shadowed": entry.shadowed,
        "file": _shown_path(workspace, entry.path),
        "problems": problems,
        "needs": list(needs_of(entry)) if entry.kind == "providers" else [],
    }


def needs_of(entry: CatalogEntry) -> tuple[str, ...]:
    """Return the environment variables that a provider requires; cached until the provider's file changes."""
    return _needs_at(entry.path, stamp_of(entry.path))


@cache
def _needs_at(path: Path, stamp: Stamp) -> tuple[str, ...]:
    from bench.config.provider.file import load_provider
    from bench.providers.description import required_variables

    try:
        return required_variables(load_provider(path))
    except BenchError:
        return ()


def _problems(catalog: Catalog, entry: CatalogEntry) -> list[Json]:
    """Return the problems found in a config. The result is cached until the config's file changes."""
    key = (entry.path, stamp_of(entry.path))
    if key not in _problems_by_file:
        _problems_by_file[key] = _check(catalog, entry)
    return _problems_by_file[key]


def _check(catalog: Catalog, entry: CatalogEntry) -> list[Json]:
    try:
        catalog.check(entry)
    except BenchError as error:
        found = error.problems if isinstance(error, ConfigError) and error.problems else (error,)
        return [{"message": redact(one.message), "where": one.where, "hint": one.hint} for one in found]
    return []


async def config_document(site: Site, kind: str, name: str) -> Json:
    """Return one config with the text of its file.

    Raises:
        NotFound: the config does not exist.
    """
    catalog = Catalog.load(site.workspace)
    entries = [entry for one in KINDS if one == kind for entry in catalog.entries(one) if entry.name == name]
    if not entries:
        raise NotFound(f"there is no config {kind}/{name}", "see the list of configs")
    text = entries[0].path.read_text(encoding="utf-8", errors="replace")[:SHOWN_CHARS]
    return {**_entry(catalog, site.workspace, entries[0]), "text": redact(text)}


def _shown_path(workspace: Path, path: Path) -> str:
    try:
        return str(path.relative_to(workspace))
    except ValueError:
        return "/".join(path.parts[path.parts.index("configs") :]) if "configs" in path.parts else path.name


PUBLISHED = "published"
"""name of the folder in ``results`` that contains the public log"""
ReceiptKey = tuple[str, str, str, str | None, str | None]
"""the job of a receipt: run, benchmark, provider, answering model, judge model"""
QUICK_BYTES = 2_000_000
"""a page waits for the verification of all receipts only if their files have fewer bytes than this"""
STATEMENT_KEYS = ("benchmark", "provider", "kind", "issuedAt", "partial", "run", "models")


async def receipts_document(site: Site) -> Json:
    """Return every receipt of the runs and of the public log, with the result of its verification."""
    files = _files(site.workspace)
    beside = [path for folder in {file.parent for file in files} for path in sorted(folder.iterdir())]
    trust = [site.workspace / "keys" / "trusted.json", *sorted((site.workspace / "results" / PUBLISHED).rglob("*"))]
    stamp = stamp_of(*beside, *trust)
    quick = sum(size for _, size in stamp[: len(beside)]) < QUICK_BYTES
    names = [str(file.relative_to(site.workspace)) for file in files]
    shown = await site.cache.get(
        "receipts",
        stamp,
        partial(make_off_loop, verify_receipts, str(site.workspace), names, items=0 if quick else SMALL_ITEMS + 1),
        max_wait_s=LONG_WAIT_S if quick else SHORT_WAIT_S,
    )
    if shown.document is None:
        return {"receipts": [], "log": None, "problem": str(shown.problem) if shown.problem else None, "fresh": False}
    return {**shown.document, "fresh": shown.fresh}


async def receipt_row(site: Site, path: Path) -> Json:
    """Return the list row of a receipt. Before the receipt is verified, its verdict is ``being verified``."""
    place = str(path.relative_to(site.workspace.resolve()))
    rows = (await receipts_document(site))["receipts"]
    known = [row for row in rows if row["file"] == place] if isinstance(rows, list) else []
    return known[0] if known else {"verdict": "being verified", "file": place}


def _files(workspace: Path) -> list[Path]:
    """Return the files of all receipts; those of the public log come first."""
    found = [path for path in (workspace / "results").glob("*/receipts/*.json") if path.is_file()]
    return sorted(found, key=lambda path: (path.parts[-3] != PUBLISHED, path))


async def verify_receipts(place: str, names: Sequence[str]) -> Json:
    """Verify the receipts in these files, and the public log."""
    from bench.receipt.log.log_store import has_log
    from bench.receipt.log.public_log import CheckedLog
    from bench.receipt.signing.trust_store import FILE as TRUSTED
    from bench.receipt.signing.trust_store import TrustStore
    from bench.receipt.verification.verify import VerificationRequest, verify_file

    workspace = Path(place)
    published = workspace / "results" / PUBLISHED
    try:
        trust = TrustStore.load_or_empty(workspace / TRUSTED)
        log_place = CheckedLog.open(published, trust) if has_log(published) else None
        outcomes = [verify_file(workspace / name, VerificationRequest(trust=trust), log_place) for name in names]
    except BenchError as error:
        return {"receipts": [], "log": None, "problem": str(error)}
    log = None
    if log_place is not None:
        outcome = log_place.outcome
        log = {"size": outcome.size, "verdict": str(outcome.verdict), "origin": outcome.origin}
    return {"receipts": [_receipt(workspace, one) for one in outcomes], "log": log, "problem": None}


def _receipt(workspace: Path, outcome: VerificationOutcome) -> Json:
    document = outcome.document if isinstance(outcome.document, dict) else {}
    statement = {name: document[name] for name in STATEMENT_KEYS if name in document}
    place = str(outcome.file.relative_to(workspace))
    return {**outcome.value(), **summary_of(document, outcome), "file": place, "statement": statement}


def receipts_by_job(site: Site, runs: Iterable[str]) -> dict[ReceiptKey, str]:
    """Return job -> address of its newest receipt. The receipts are not verified."""
    from bench.canonical import read_object

    found: dict[ReceiptKey, str] = {}
    for run_id in runs:
        for path in sorted((site.workspace / "results" / run_id / "receipts").glob("*.json")):
            document = read_object(path)
            if not document:
                continue
            names = (_name(document.get("benchmark")), _name(document.get("provider")))
            found[run_id, *names, _model(document, "answering"), _model(document, "judge")] = (
                f"/receipts/{run_id}/{path.name}"
            )
    return found


def _name(part: object) -> str:
    return str(part.get("name")) if isinstance(part, Mapping) else ""


def _model(document: Mapping[str, object], role: str) -> str | None:
    """Return the model that a receipt names for a role, as ``provider/name``; None if the receipt names none."""
    models = document.get("models")
    for one in models if isinstance(models, list) else ():
        if isinstance(one, Mapping) and one.get("role") == role:
            return "/".join(str(one[part]) for part in ("provider", "requested") if one.get(part))
    return None


def receipt_file(site: Site, run: str, name: str) -> Path:
    """Return the file of a receipt. ``run`` is a run id, or ``published`` for a receipt of the public log.

    Raises:
        NotFound: the run has no such receipt.
    """
    folder = site.workspace / "results" / run / "receipts"
    path = (folder / name).resolve()
    if path.parent != folder.resolve() or not path.is_file():
        raise NotFound(f"{run} has no receipt {name}", "see the list of receipts")
    return path
