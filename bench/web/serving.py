"""Open a site: check the address and the token, take the workspace, listen, and close cleanly.

Example::

    async with open_site(Settings(workspace=Path("."), runs=True, port=0)) as site:
        print(site.url, site.login)
"""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from aiohttp import web

from bench.errors import UsageError
from bench.events import close, log, redactor
from bench.journal.places import CHECKPOINTS
from bench.settings import Environment
from bench.web.app import make_app
from bench.web.gauges import Gauges
from bench.web.kept import Kept
from bench.web.orders import Orders
from bench.web.service import Service
from bench.web.site import LOOPBACK, Site
from bench.web.tokens import Secret
from bench.web.warming import warm

TOKEN_VARIABLE = "MEMORYBENCH_TOKEN_FILE"  # noqa: S105  a name
SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
EXIT_SIGTERM = 143
EXIT_SIGINT = 130
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says."""

    workspace: Path
    environment: Environment = field(default_factory=Environment)
    host: str = "127.0.0.1"
    port: int = 3000
    token_file: Path | None = None
    runs: bool = False
    """True = ``serve``: a service that also runs"""
    max_runs: int = 1
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSite:
    """A site that listens."""

    url: str
    login: str
    """the address with the token that logs a browser in; the plain one where no token is needed"""
    secret: Secret | None
    site: Site
    recovered: tuple[str, ...] = ()


@asynccontextmanager
async def open_site(settings: Settings) -> AsyncIterator[OpenSite]:
    """Listen as long as the block runs; leaving it pauses every run.

    Raises:
        UsageError: no port; an address beyond this machine without a named token file; inside a group: one taken.
        Locked: another service has the workspace.
    """
    if not 0 <= settings.port <= LAST_PORT:
        raise UsageError(
            f"--port {settings.port}: there is no such port",
            hint=f"--port goes from 1 to {LAST_PORT}; 0 chooses a free one",
        )
    secret = _secret(settings)
    learn_secrets(settings.environment)
    with ExitStack() as held:
        orders = held.enter_context(Orders.open(settings.workspace)) if settings.runs else None
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
            site = Site(
                workspace=settings.workspace,
                environment=settings.environment,
                kept=Kept(tasks),
                gauges=Gauges(),
                service=service,
                secret=secret,
                hosts=LOOPBACK | {settings.host.lower()},
                any_address=_is_wildcard(settings.host),
                run=settings.run,
            )
            runner = web.AppRunner(make_app(site), access_log=None, handle_signals=False, shutdown_timeout=0.2)
            await runner.setup()
            try:
                port = await _listen(runner, settings)
                recovered = tuple(await service.recover()) if service else ()
                url = f"http://{_shown(settings.host)}:{port}"
                tasks.start_soon(warm, settings.workspace)
                login = f"{url}/login?token={secret.token}" if secret else f"{url}/"
                yield OpenSite(url=url, login=login, secret=secret, site=site, recovered=recovered)
            finally:
                with anyio.CancelScope(shield=True):
                    if service is not None:
                        await service.close()
                    await runner.cleanup()
                tasks.cancel_scope.cancel()


async def serve_until_signal(settings: Settings, tell: Callable[[OpenSite], None]) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_site(settings) as site:
            tell(site)
            code = EXIT_SIGTERM
            async for number in signals:
                code = EXIT_SIGTERM if number == signal.SIGTERM else EXIT_SIGINT
                break
    if site.site.service is not None and site.site.service.stuck:
        log().error("run_does_not_end", hint="its journal is as after a kill: the next start continues it")
        close()
        os._exit(code)  # its thread hears nothing, and the interpreter would wait for it
    return code


def learn_secrets(environment: Environment) -> None:
    """Have every variable that is named like a secret redacted from all answers."""
    for name, value in {**environment.values, **os.environ}.items():
        if any(word in name.upper() for word in SECRET_WORDS) and len(value) >= 8 and not name.endswith("_FILE"):
            redactor.learn(value)


def _secret(settings: Settings) -> Secret | None:
    named = settings.token_file or _named(settings.environment)
    if named is not None:
        return Secret.at(named)
    if not is_loopback(settings.host):
        raise UsageError(
            f"{settings.host} can be reached from other machines: a token is needed",
            hint=f"name a token file with --token-file or {TOKEN_VARIABLE}, or stay on 127.0.0.1",
        )
    return Secret.at(settings.workspace / CHECKPOINTS / ".token") if settings.runs else None


def _named(environment: Environment) -> Path | None:
    text = environment.get(TOKEN_VARIABLE)
    return Path(text) if text else None


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")  # noqa: S104  compared, not bound


def _shown(host: str) -> str:
    if _is_wildcard(host):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


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
