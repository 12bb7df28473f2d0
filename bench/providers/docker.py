"""Start the service of a Docker Compose file, unless it is already running.

Example::

    async with running_service(config, context):          # chroma answers at its base URL inside the block
        ...

At the end, the service is stopped only if bench started it. Volumes are kept, so that a resumed run finds its memories.
Error messages quote the last lines of the output of compose.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from bench.config.provider.config import Docker
from bench.errors import CallError, ConfigError
from bench.events import log, redact
from bench.http import Endpoint, Request, Retry, Timeouts
from bench.providers.protocol import ProviderContext
from bench.settings import hide_secrets

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig

LOG_LINES = 20
HEALTH_PAUSE_S = 0.5
PROBE_S = 5.0
STOP_S = 60.0
STARTED, STOPPED = "docker_started", "docker_stopped"
"""kinds of the events that the run records when it has started or stopped a service"""
NOT_AVAILABLE = {
    "its daemon does not answer": (
        "cannot connect to the docker daemon",
        "is the docker daemon running",
        "error during connect",
    ),
    "its compose plug-in is not installed": (
        "unknown command: docker compose",
        "'compose' is not a docker command",
        "unknown shorthand flag: 'p'",
    ),
}
"""reason why Docker cannot be used -> texts in Docker's output that show this reason"""
PORT_TAKEN = ("port is already allocated", "address already in use")


def project_of(provider: str) -> str:
    """Return the name of the compose project in which the provider's service runs."""
    return f"bench-{provider}"


def running_projects(events: Iterable[tuple[str, Mapping[str, object]]]) -> frozenset[str]:
    """Return the compose projects that a run started but did not stop. ``events`` are (kind, data) pairs in order."""
    found: set[str] = set()
    for kind, data in events:
        if kind == STARTED:
            found.add(str(data["project"]))
        elif kind == STOPPED:
            found.discard(str(data["project"]))
    return frozenset(found)


@asynccontextmanager
async def running_service(config: ProviderConfig, context: ProviderContext) -> AsyncIterator[None]:
    """Keep the config's service running inside the `with` block. Do nothing if the config has no ``docker`` section.

    Raises:
        ConfigError: the service does not answer and Docker is not available, compose fails, or the service is not
            healthy in time.
    """
    if config.docker is None:
        yield
        return
    compose = Compose.from_config(config, config.docker, context)
    try:
        if not await compose.is_healthy():
            await compose.up()
            await compose.until_healthy()
        yield
    finally:
        if compose.is_ours:
            with anyio.CancelScope(shield=True):  # what this run started is stopped, however the run ends
                await compose.stop()


@dataclass(slots=True, kw_only=True)
class Compose:
    """One service of one compose file, with its health check."""

    name: str
    is_ours: bool
    """True if this run started the service, in this process or in an earlier one"""
    settings: Docker
    context: ProviderContext
    file: str
    base_url: str
    health_url: str
    variables: tuple[str, ...]
    where: str | None
    last_problem: str = "nothing answers"
    """reason why the last health check failed"""

    @classmethod
    def from_config(cls, config: ProviderConfig, settings: Docker, context: ProviderContext) -> Compose:
        """Create the object from a ``docker`` section. The health check may be a path or a full URL."""
        from bench.config.value_rules import find_variables

        base = context.environment.resolve(settings.base_url, where=config.place("docker", "base_url")).rstrip("/")
        health = context.environment.resolve(settings.healthcheck)
        return cls(
            name=config.name,
            is_ours=project_of(config.name) in context.services,
            settings=settings,
            context=context,
            file=str(config.folder / settings.compose),
            base_url=base,
            health_url=health if health.startswith("http") else f"{base}/{health.lstrip('/')}",
            variables=tuple(variable.name for variable in find_variables(settings.base_url)),
            where=config.place("docker"),
        )

    async def is_healthy(self) -> bool:
        """Send the health check once; return True if its status is 2xx."""
        endpoint = Endpoint(
            name=f"{self.name}.health",
            role="provider",
            retry=Retry(max_retries=0),
            timeouts=Timeouts(attempt_s=PROBE_S, connect_s=PROBE_S),
        )
        try:
            await self.context.http.call(endpoint, Request("GET", self.health_url))
        except CallError as error:
            self.last_problem = error.message
            return False
        return True

    async def up(self) -> None:
        """Start the service, and record the start as an event of the run."""
        self.is_ours = True  # from here on: a start that is interrupted may have started it
        try:
            await self._run("up", "-d", self.settings.service)
        except ConfigError:
            self.is_ours = False
            raise
        containers = (await self._run("ps", "-q", self.settings.service)).split()
        self.context.note(STARTED, {"project": self.project, "containers": containers})
        log().info(STARTED, provider=self.name, project=self.project, containers=containers)

    async def until_healthy(self) -> None:
        """Repeat the health check until its status is 2xx.

        Raises:
            ConfigError: the service is not healthy in time; the error quotes the end of the service's log.
        """
        with anyio.move_on_after(self.settings.health_timeout_s):
            while True:
                if await self.is_healthy():
                    return
                await anyio.sleep(HEALTH_PAUSE_S)
        lines = await self._run("logs", "--tail", str(LOG_LINES), self.settings.service)
        raise ConfigError(
            f"{self.name} was started, but is not healthy at {self.health_url} after "
            f"{self.settings.health_timeout_s} s ({self.last_problem}):\n{_tail(lines)}",
            where=self.where,
            hint="read the log of the service, or raise docker.health_timeout_s",
        )

    async def stop(self) -> None:
        """Stop the service but keep its volumes. If this fails, only log a warning."""
        with anyio.move_on_after(STOP_S):
            try:
                await self._run("stop", self.settings.service)
            except ConfigError as error:
                log().warning("docker_not_stopped", provider=self.name, error=str(error))
                return
            self.context.note(STOPPED, {"project": self.project})

    @property
    def project(self) -> str:
        """Return the name of this provider's compose project."""
        return project_of(self.name)

    async def _run(self, *arguments: str) -> str:
        program = shutil.which("docker", path=self.context.environment.get("PATH"))
        if program is None:
            raise self._not_available("the docker command is not installed")
        return await self._output([program, "compose", "-p", self.project, "-f", self.file, *arguments])

    async def _output(self, command: Sequence[str]) -> str:
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        output = redact(done.stdout.decode("utf-8", "replace"))
        log().info("docker", command=" ".join(command[1:]), status=done.returncode, output=_tail(output))
        if done.returncode == 0:
            return output
        for reason, words in NOT_AVAILABLE.items():
            if any(one in output.lower() for one in words):
                raise self._not_available(reason)
        taken = any(words in output.lower() for words in PORT_TAKEN)
        raise ConfigError(
            f"docker compose {command[6]} failed for {self.name} (status {done.returncode}):\n{_tail(output)}",
            where=self.where,
            hint=self._port_hint() if taken else f"run this command by hand to see the cause: {' '.join(command)}",
        )

    def _port_hint(self) -> str:
        named = f", and set {', '.join(self.variables)}" if self.variables else ""
        return (
            f"another program uses its port ({self.last_problem}): stop that program, "
            f"or start {self.settings.service} on another port by hand{named}"
        )

    def _not_available(self, why: str) -> ConfigError:
        named = f", and set {', '.join(self.variables)}" if self.variables else ""
        return ConfigError(
            f"{self.name} is not reachable at {hide_secrets(self.base_url)} and Docker is not available ({why})",
            where=self.where,
            hint=f"start {self.settings.service} by hand{named}",
        )


def _tail(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-LOG_LINES:])
