"""The state that all request handlers of a web server share.

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
    """A site that shows one workspace."""

    workspace: Path
    environment: Environment
    cache: DocumentCache
    service: Service | None = None
    """starts and stops runs; None for a read-only site"""
    secret: ServiceToken | None = None
    """the token that requests must have; None if only this machine can reach the site"""
    hosts: frozenset[str] = LOOPBACK
    """host names that are allowed in a Host header"""
    public_host: str = ""
    """host name of a reverse proxy, which is allowed in a Host header and in an Origin header"""
    any_address: bool = False
    """True if the site listens on all addresses. Then a Host header may also be any IP address."""
    run: str | None = None
    """the run whose page is the start page; None for the list of runs"""

    static: bool = False
    """True if the pages are exported to files, without forms and links that need a server"""
    only: frozenset[str] = frozenset()
    """runs that a static site contains; an empty set means every run of the workspace"""

    @property
    def read_only(self) -> bool:
        return self.service is None


SITE = web.AppKey("site", Site)
