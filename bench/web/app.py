"""Open the web server of a workspace: check the address and the token, lock the workspace, and listen.

``warm_up`` loads modules, templates and configs at the start, so that the first visitor does not wait.

Example::

    async with open_site(Settings(workspace=Path("."), runs=True, port=0)) as site:
        print(site.url, site.login)
    app = make_app(Site(workspace=Path("."), ...))
    tasks.start_soon(warm_up, workspace)
"""

from __future__ import annotations

import errno
import ipaddress
import os
import platform
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import anyio
import anyio.to_thread
from aiohttp import web

from bench.errors import BenchError, UsageError
from bench.events import close, log, redactor
from bench.journal.paths import CHECKPOINTS
from bench.patterns import pattern
from bench.settings import Environment
from bench.web import api
from bench.web.app_state import LOOPBACK, SITE, Site
from bench.web.cache import DocumentCache
from bench.web.openapi import openapi_document
from bench.web.pages import routes as page_routes
from bench.web.prometheus import METRICS, ServiceMetrics
from bench.web.security import Handler, add_headers, guard, is_address
from bench.web.service import OrderStore, Service
from bench.web.token_file import ServiceToken

MAX_BODY = 2**20
COMPRESSED_TYPES = frozenset({"text/html", "text/csv", "text/markdown", "application/json", "image/svg+xml"})
"""content types of responses that are compressed"""
STATIC = Path(__file__).with_name("static")


def make_app(site: Site) -> web.Application:
    """Create the aiohttp application of a site."""
    app = web.Application(middlewares=[measure_response, guard], client_max_size=MAX_BODY)
    app[SITE], app[METRICS] = site, ServiceMetrics()
    app.on_response_prepare.append(add_headers)
    app.add_routes(api.routes())
    app.add_routes(page_routes())
    app.router.add_static("/static", STATIC, append_version=False)
    return app


@web.middleware
async def measure_response(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle a request, compress the response, and count the request by its route; a route contains no ids."""
    began, status = time.monotonic(), HTTPStatus.INTERNAL_SERVER_ERROR.value
    try:
        response = await handler(request)
        status = response.status
        if isinstance(response, web.Response) and response.content_type in COMPRESSED_TYPES and (response.body or b""):
            response.enable_compression()
    except web.HTTPException as redirect:
        status = redirect.status
        raise
    finally:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "none"
        request.app[METRICS].count_request(request.method, route, status, time.monotonic() - began)
    return response


async def warm_up(workspace: Path) -> None:
    """Load modules, templates and configs in a thread. A site that closes does not wait for this thread."""
    await anyio.to_thread.run_sync(_warm_up, workspace, abandon_on_cancel=True)


def _warm_up(workspace: Path) -> None:
    import bench.receipt.verification.verify
    import bench.report.comparison.formats  # noqa: F401
    from bench.web.documents.workspace_documents import all_configs
    from bench.web.rendering import templates

    for name in templates().list_templates():
        templates().get_template(name)
    openapi_document(api.ENDPOINTS)
    with suppress(BenchError):  # the page of configs shows it
        all_configs(workspace)


TOKEN_VARIABLE = "MEMORYBENCH_TOKEN_FILE"  # noqa: S105  a name
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
SHORTEST = 8
"""minimum number of characters of a value to redact; a shorter value can be an ordinary word"""
EXIT_SIGTERM = 143
EXIT_SIGINT = 130
LAST_PORT = 65_535
HOST_NAME = pattern(r"(?:[A-Za-z0-9_-]+\.)*[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings with which a site is opened."""

    workspace: Path
    environment: Environment = field(default_factory=Environment)
    host: str = "127.0.0.1"
    port: int = 3000
    token_file: Path | None = None
    public_host: str | None = None
    """host name of a reverse proxy in front of the site; None if there is none"""
    runs: bool = False
    """True for ``bench serve``, which can start runs"""
    max_runs: int = 1
    run: str | None = None
    static: bool = False
    only: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSite:
    """A site that is listening."""

    url: str
    login: str
    """the address that logs a browser in with the token; the plain address if no token is needed"""
    secret: ServiceToken | None
    site: Site
    recovered: tuple[str, ...] = ()


@asynccontextmanager
async def open_site(settings: Settings) -> AsyncIterator[OpenSite]:
    """Open a site that listens while the ``with`` block runs. At the end of the block, every run is paused.

    Raises:
        UsageError: the port or the public host is invalid, or other machines can reach the address and no token file
            is named.
        ExceptionGroup: it contains a UsageError if the address or port cannot be used.
        Locked: another service uses the workspace.
    """
    _check_address(settings)
    secret = _secret(settings)
    redact_secrets(settings.environment)
    with ExitStack() as held:
        orders = held.enter_context(OrderStore.open(settings.workspace)) if settings.runs else None
        async with anyio.create_task_group() as tasks:
            service = None
            if orders is not None:
                service = Service(
                    workspace=settings.workspace,
                    environment=settings.environment,
                    orders=orders,
                    tasks=tasks,
                    max_runs=settings.max_runs,
                )
            public_host = (settings.public_host or "").lower()
            any_address = settings.host in ("0.0.0.0", "::", "")  # noqa: S104  compared, not bound
            own_name = platform.node().lower() if any_address else settings.host.lower()
            site = Site(
                workspace=settings.workspace,
                environment=settings.environment,
                cache=DocumentCache(tasks),
                service=service,
                secret=secret,
                hosts=LOOPBACK | {settings.host.lower(), own_name, public_host} - {""},
                public_host=public_host,
                any_address=any_address,
                run=settings.run,
                static=settings.static,
                only=settings.only,
            )
            runner = web.AppRunner(make_app(site), access_log=None, handle_signals=False, shutdown_timeout=0.2)
            await runner.setup()
            try:
                port = await _listen(runner, settings)
                recovered = tuple(await service.recover()) if service else ()
                host = "127.0.0.1" if site.any_address else settings.host
                url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
                if not settings.static:
                    tasks.start_soon(warm_up, settings.workspace)
                login = f"{url}/login?token={secret.token}" if secret else f"{url}/"
                yield OpenSite(url=url, login=login, secret=secret, site=site, recovered=recovered)
            finally:
                with anyio.CancelScope(shield=True):
                    if service is not None:
                        await service.close()
                    await runner.cleanup()
                tasks.cancel_scope.cancel()


async def serve_until_signal(settings: Settings, on_open: Callable[[OpenSite], None]) -> int:
    """Serve a site until SIGINT or SIGTERM, and return the exit code of the signal."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_site(settings) as site:
            on_open(site)
            code = EXIT_SIGTERM
            async for number in signals:
                code = EXIT_SIGTERM if number == signal.SIGTERM else EXIT_SIGINT
                break
    if site.site.service is not None and site.site.service.stuck:
        log().error("run_does_not_end", hint="the next start continues the run from its journal")
        close()
        os._exit(code)  # the thread of the run does not stop, and the interpreter would wait for it
    return code


def redact_secrets(environment: Environment) -> None:
    """Redact the value of each variable whose name contains a word such as KEY, if the value is not short."""
    for known in (environment, Environment(values=os.environ)):
        for value in known.values_of(lambda name: any(word in name.upper() for word in SECRET_WORDS)):
            if len(value) >= SHORTEST:
                redactor.learn(value)


def _check_address(settings: Settings) -> None:
    """Raise UsageError if the port or the name of the reverse proxy is not valid."""
    if not 0 <= settings.port <= LAST_PORT:
        raise UsageError(
            f"--port {settings.port} is not a valid port",
            hint=f"use a number from 1 to {LAST_PORT}, or 0 for a free port",
        )
    name = settings.public_host
    if name is not None and not HOST_NAME.fullmatch(name) and not is_address(name):
        raise UsageError(
            f'--public-host "{name}" is not a host name',
            hint="give only the name, without https://, port and path, for example bench.example.com",
        )


def _secret(settings: Settings) -> ServiceToken | None:
    named = settings.token_file or settings.environment.get(TOKEN_VARIABLE)
    if named:
        return ServiceToken.load_or_create(Path(named))
    if not is_loopback(settings.host):
        raise UsageError(
            f"{settings.host} can be reached from other machines: a token is needed",
            hint=f"name a token file with --token-file or {TOKEN_VARIABLE}, or listen on 127.0.0.1",
        )
    return ServiceToken.load_or_create(settings.workspace / CHECKPOINTS / ".token") if settings.runs else None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _listen(runner: web.AppRunner, settings: Settings) -> int:
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as error:
        unknown = isinstance(error, socket.gaierror)  # its numbers are not the system's
        why = error.strerror if unknown else os.strerror(error.errno or 0)
        flag = "--host" if unknown or error.errno == errno.EADDRNOTAVAIL else "--port"
        raise UsageError(
            f"cannot listen on {settings.host}:{settings.port}: {why}", hint=f"choose another {flag}"
        ) from error
    return int(runner.addresses[0][1])
