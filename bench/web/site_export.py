"""Export the pages of `bench explore` as static files.

Example::

    await export_site(Path("."), Path("site"))                        # every run: site/index.html, site/runs/r1/...
    await export_site(Path("."), Path("site"), frozenset({"r1"}))     # the pages of one run

Links become relative. A link to a page that needs a server becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit

import aiohttp
import anyio
from yarl import URL

from bench.errors import UsageError
from bench.journal.paths import CHECKPOINTS, JOURNAL, run_ids
from bench.web.app import Settings, open_site

ANCHOR = re.compile(r'<a\b[^>]*? href="(?P<to>[^"]*)"[^>]*>(?P<text>.*?)</a>', re.DOTALL)
LINK = re.compile(r' (?P<name>href|src)="(?P<to>[^"]*)"')
PENDING_MARK = b"data-again"
POLL_S = 0.2
PAGES = re.compile(
    r"/|/leaderboard|/receipts|/compare|/verify\.html|/favicon\.ico|/static/[\w./-]+|/receipts/[^/]+/[^/]+"
    r"|/providers/[^/]+|/(?:(?:api/v1/)?runs|report)/(?P<run>[^/]+)(?:/results(?:\.\w+)?|/items(?:/[^/]+)?)?"
)
ITEM = re.compile(r"/runs/[^/]+/items/[^/]+")
PAGE_QUERY = {
    "/compare": ("a", "b"),
    "/leaderboard": ("view", "benchmark"),
    "/items": ("provider", "benchmark", "state", "type", "loss", "cursor"),
    "/report": ("download",),
}
"""query parameters that a saved page depends on, by the beginning or end of its path; other parameters are dropped"""
WHOLE_SITE = ("/leaderboard", "/receipts", "/providers/")
"""beginnings of paths whose pages show several runs; an export of selected runs does not contain these pages"""
PLAIN = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~-]{0,119}")
NAMED = re.compile(r"(?:verify\.html|static/.*|.*/results\.\w+|receipts/[^/]+/[^/]+)")


@dataclass(slots=True)
class SiteExport:
    """The result of an export."""

    files: int = 0
    problems: list[tuple[str, int]] = field(default_factory=list)
    """(address, HTTP status) of each page that returned an error; the file of such a page holds the error page"""


async def export_site(workspace: Path, folder: Path, runs: frozenset[str] = frozenset()) -> SiteExport:
    """Write the pages of these runs into a folder; without ``runs``, write the pages of the whole workspace.

    Raises:
        UsageError: a run does not exist, or the folder contains files that bench did not write.
    """
    known = run_ids(workspace)
    for name in runs:
        if not (workspace / CHECKPOINTS / name / JOURNAL).is_file():
            raise UsageError(f"there is no run {name}", hint=f"this workspace has: {', '.join(known) or 'none'}")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "index.html").is_file())):
        raise UsageError(
            f"{folder} already exists, and bench did not write it",
            hint="name an empty folder, or the folder of an earlier --site",
        )
    settings = Settings(workspace=workspace, port=0, static=True, only=runs)
    async with open_site(settings) as site, aiohttp.ClientSession() as session:
        crawl = _Crawler(session, site.url, folder, runs)
        headers = {} if site.secret is None else {"Authorization": f"Bearer {site.secret.token}"}
        session.headers.update(headers)
        return await crawl.run()


class _Crawler:
    """A crawl of the site: ``seen`` has all addresses found so far, ``waiting`` has those that are not saved yet."""

    def __init__(self, session: aiohttp.ClientSession, base: str, folder: Path, runs: frozenset[str]) -> None:
        self.session, self.base, self.folder, self.runs = session, base, folder, runs
        self.seen: set[str] = set()
        self.waiting: deque[str] = deque()
        self.written = SiteExport()

    async def run(self) -> SiteExport:
        self._add("/")
        while self.waiting:
            await self._save(self.waiting.popleft())
        return self.written

    def _add(self, address: str) -> None:
        if address not in self.seen:
            self.seen.add(address)
            self.waiting.append(address)

    async def _save(self, address: str) -> None:
        kind, body = await self._read(address)
        if kind == "text/html" and not address.startswith("/verify.html") and "download=" not in address:
            body = self._rewritten(address, body.decode()).encode()
        path = self.folder / file_of(address)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self.written.files += 1

    async def _read(self, address: str) -> tuple[str, bytes]:
        """Request a page, repeatedly while a part of it is still being computed; return its content type and bytes."""
        while True:
            async with self.session.get(URL(self.base + address, encoded=True)) as answer:
                kind, body = answer.content_type, await answer.read()
            if answer.status != 503 and not (kind == "text/html" and PENDING_MARK in body):
                if answer.status != 200:
                    self.written.problems.append((address, answer.status))
                return kind, body
            await anyio.sleep(POLL_S)

    def _rewritten(self, address: str, text: str) -> str:
        def unwrapped(match: re.Match[str]) -> str:
            return match[0] if self._target(address, match["to"]) is not None else match["text"]

        def linked(match: re.Match[str]) -> str:
            return f' {match["name"]}="{escape(self._target(address, match["to"]) or "")}"'

        return LINK.sub(linked, ANCHOR.sub(unwrapped, text))

    def _target(self, address: str, to: str) -> str | None:
        """Return the relative path from a page to the file of a link; None if the link has no file.

        The linked page is also added to the pages to save.
        """
        to = unescape(to)
        if to.startswith("#"):
            return to
        full = urljoin(address, to)
        found = address_of(full, self.runs)
        if found is None:
            return None
        self._add(found)
        side = dict(parse_qsl(urlsplit(full).query)).get("provider", "") if ITEM.fullmatch(found) else ""
        path = posixpath.relpath(file_of(found), posixpath.dirname(file_of(address)) or ".")
        return quote(path) + (f"#{quote(side.partition(',')[0])}" if side else "")


def address_of(link: str, runs: frozenset[str]) -> str | None:
    """Return the address of the page that a link opens, with only the query parameters that the page depends on.

    Return None if the page needs a server, or shows a run that was not chosen.
    """
    parts = urlsplit(link)
    found = PAGES.fullmatch(parts.path)
    if parts.netloc or found is None or (runs and not _shows_only(parts.path, parts.query, found["run"], runs)):
        return None
    kept = next(
        (names for mark, names in PAGE_QUERY.items() if parts.path.endswith(mark) or parts.path.startswith(mark)), ()
    )
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name in kept and value])
    if parts.path == "/compare" and not query:
        return None
    return parts.path + (f"?{query}" if query else "")


def _shows_only(path: str, query: str, run: str | None, runs: frozenset[str]) -> bool:
    """Return True if a page shows no run other than the chosen runs."""
    if path.startswith("/receipts/"):
        return unquote(path.split("/")[2]) in runs
    compared = [value.rpartition(":")[0] for name, value in parse_qsl(query) if path == "/compare" and name in "ab"]
    named = {*compared, *([unquote(run)] if run else [])}
    return named <= runs and not path.startswith(WHOLE_SITE)


def file_of(address: str) -> str:
    """Return the path of a page's file in the folder of the site.

    A name with unusual characters or of unusual length is replaced by a hash.
    """
    path, _, query = address.partition("?")
    name = "/".join(part if PLAIN.fullmatch(part) else _digest(part) for part in path.strip("/").split("/") if part)
    if name == "favicon.ico":
        return "favicon.svg"  # a file on disk states its type only by its suffix
    if NAMED.fullmatch(name) and not query:
        return name
    if name.startswith("api/"):
        return f"{name}.json"
    last = f"index-{_digest(query)}.html" if query else "index.html"
    return f"{name}/{last}" if name else last


def _digest(text: str) -> str:
    return sha256(unquote(text).encode()).hexdigest()[:16]
