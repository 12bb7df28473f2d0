"""Real HTTP servers on the loopback interface, each for a handler of a few lines.

Example::

    servers = LocalServers()
    url = await servers.start(handler)      # async def handler(request: web.Request) -> web.Response
    await servers.close()
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LocalServers:
    """Servers that are closed together."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []

    async def start(self, handler: Handler) -> str:
        """Serve every path and method with the handler; return the base URL."""
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        self._runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def close(self) -> None:
        """Stop all servers."""
        for runner in self._runners:
            await runner.cleanup()


@contextmanager
def deaf_server() -> Iterator[str]:
    """Yield the URL of a server with a full queue of connections: a client gets no answer at all."""
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        yield f"http://127.0.0.1:{deaf.getsockname()[1]}"
