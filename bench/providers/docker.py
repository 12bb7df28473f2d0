"""The service of a compose file: used when it answers, started when it does not, stopped only when we started it.

Example::

    async with service(config, context):          # chroma answers at its base URL inside the block
        ...

Volumes stay, so a resumed run finds what was stored. Compose output goes to the log, its last lines into the error.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from bench.config.provider.sections import Docker
from bench.errors import CallError, ConfigError
from bench.events import log, redact
from bench.http import Endpoint, Request, Retry, Timeouts
from bench.providers.protocol import ProviderContext

if TYPE_CHECKING:
    from bench.config.provider import ProviderConfig

LINES_SHOWN = 20
HEALTH_PAUSE_S = 0.5
PROBE_S = 5.0
STOP_S = 60.0
NO_DAEMON = ("cannot connect to the docker daemon", "is the docker daemon running", "error during connect")


@asynccontextmanager
async def service(config: ProviderConfig, context: ProviderContext) -> AsyncIterator[None]:
    """Keep the config's service up inside the block; a config without ``docker`` needs nothing.

    Raises:
        ConfigError: it does not answer and Docker is not there, compose fails, or it is not healthy in time.
    """
    if config.docker is None:
        yield
        return
    compose = Compose.of(config, config.docker, context)
    if await compose.answers():
        yield
        return
    await compose.up()
    try:
        await compose.until_healthy()
        yield
    finally:
        with anyio.CancelScope(shield=True):  # what this run started is stopped, however the run ends
            await compose.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """One service of one compose file."""

    name: str
    settings: Docker
    context: ProviderContext
    file: str
    base_url: str
    health_url: str
    variables: tuple[str, ...]
    where: str | None

    @classmethod
    def of(cls, config: ProviderConfig, settings: Docker, context: ProviderContext) -> Compose:
        """Resolve the address and the health check, which may be a path or a full URL."""
        from bench.config.variables import find_variables

        base = context.environment.resolve(settings.base_url, where=config.place("docker", "base_url")).rstrip("/")
        health = context.environment.resolve(settings.healthcheck)
        return cls(
            name=config.name,
            settings=settings,
            context=context,
            file=str(config.folder / settings.compose),
            base_url=base,
            health_url=health if health.startswith("http") else f"{base}/{health.lstrip('/')}",
            variables=tuple(variable.name for variable in find_variables(settings.base_url)),
            where=config.place("docker"),
        )

    async def answers(self) -> bool:
        """Say whether the health check gives a 2xx."""
        endpoint = Endpoint(
            name=f"{self.name}.health",
            role="provider",
            retry=Retry(max_retries=0),
            timeouts=Timeouts(attempt_s=PROBE_S, connect_s=PROBE_S),
        )
        try:
            await self.context.http.call(endpoint, Request("GET", self.health_url))
        except CallError:
            return False
        return True

    async def up(self) -> None:
        """Start the service and write down what we own."""
        await self._run("up", "-d", self.settings.service)
        containers = await self._run("ps", "-q", self.settings.service)
        log().info("docker_started", provider=self.name, project=self.project, containers=containers.split())

    async def until_healthy(self) -> None:
        """Wait for the health check, only a 2xx counts."""
        with anyio.move_on_after(self.settings.health_timeout_s):
            while True:
                if await self.answers():
                    return
                await anyio.sleep(HEALTH_PAUSE_S)
        lines = await self._run("logs", "--tail", str(LINES_SHOWN), self.settings.service)
        raise ConfigError(
            f"{self.name} was started and is not healthy at {self.health_url} within "
            f"{self.settings.health_timeout_s} s:\n{_tail(lines)}",
            where=self.where,
            hint="raise docker.health_timeout_s, or see why it does not come up",
        )

    async def stop(self) -> None:
        """Stop what we started; volumes stay."""
        with anyio.move_on_after(STOP_S):
            try:
                await self._run("stop", self.settings.service)
            except ConfigError as error:
                log().warning("docker_not_stopped", provider=self.name, error=str(error))

    @property
    def project(self) -> str:
        """The compose project of this provider."""
        return f"bench-{self.name}"

    async def _run(self, *arguments: str) -> str:
        program = shutil.which("docker", path=self.context.environment.get("PATH"))
        if program is None:
            raise self._not_available("there is no docker command")
        return await self._output([program, "compose", "-p", self.project, "-f", self.file, *arguments])

    async def _output(self, command: Sequence[str]) -> str:
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        output = redact(done.stdout.decode("utf-8", "replace"))
        log().info("docker", command=" ".join(command[1:]), status=done.returncode, output=_tail(output))
        if done.returncode == 0:
            return output
        if any(words in output.lower() for words in NO_DAEMON):
            raise self._not_available("its daemon does not answer")
        raise ConfigError(
            f"docker compose {command[6]} failed for {self.name} (status {done.returncode}):\n{_tail(output)}",
            where=self.where,
            hint=f"run it by hand: {' '.join(command)}",
        )

    def _not_available(self, why: str) -> ConfigError:
        named = f", and set {', '.join(self.variables)}" if self.variables else ""
        return ConfigError(
            f"{self.name} is not reachable at {self.base_url} and Docker is not available ({why})",
            where=self.where,
            hint=f"start {self.settings.service} by hand{named}",
        )


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-LINES_SHOWN:])
