"""The shared state of a site's handlers.

Example::

    site = request.app[SITE]
    site.workspace, site.service is None       # explore: nothing can be started
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from bench.settings import Environment
from bench.web.cache import DocumentCache
from bench.web.service import Service
from bench.web.token_file import ServiceToken

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Site:
    """One workspace at one address."""

    workspace: Path
    environment: Environment
    cache: DocumentCache
    service: Service | None = None
    """None = read-only"""
    secret: ServiceToken | None = None
    """None = no login: only this machine can reach the address"""
    hosts: frozenset[str] = LOOPBACK
    """names that are allowed in a Host header"""
    any_address: bool = False
    """True if the site listens on all addresses: then any IP address is also allowed in a Host header"""
    run: str | None = None
    """the run that ``explore --run`` opens first"""

    static: bool = False
    """True if the pages are written to files: everything that needs a server is left out"""
    only: frozenset[str] = frozenset()
    """the runs of a static site; empty = every run of the workspace"""

    @property
    def read_only(self) -> bool:
        return self.service is None


SITE = web.AppKey("site", Site)
