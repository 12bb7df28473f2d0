"""Helpers for providers that use PostgreSQL: connect, convert texts and vectors, and convert errors.

Example::

    database = Database.resolve(config.name, "${PGVECTOR_URL}", context, where=config.place("local", "url"))
    try:
        await connection.execute(SQL["put"], (storable(text), vector_literal(vector)))
    except psycopg.Error as error:
        raise database.failure_of(error) from error

The driver comes with the extra ``[pgvector]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import psycopg

from bench.config.value_rules import find_variables
from bench.errors import AuthError, CallError, Rejected, Unavailable
from bench.events import redact, redactor
from bench.providers.protocol import ProviderContext

CONNECT_S = 10
AUTH_ERRORS = (psycopg.errors.InvalidPassword, psycopg.errors.InvalidAuthorizationSpecification)
Connection = psycopg.AsyncConnection[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Database:
    """The address of one database, and the name of the provider that uses it."""

    user: str
    """name of the provider, for error messages"""
    url: str
    variables: str
    """names of the environment variables from which the URL was made, separated by commas"""

    @classmethod
    def resolve(cls, user: str, url: str, context: ProviderContext, *, where: str | None) -> Database:
        """Resolve the environment variables in a database URL, and register its password as a secret.

        Raises:
            ConfigError: an environment variable is not set.
        """
        resolved = context.environment.resolve(url, where=where)
        redactor.learn(unquote(urlsplit(resolved).password or ""))
        return cls(user, resolved, ", ".join(variable.name for variable in find_variables(url)))

    async def connect(self) -> Connection:
        """Open a new connection in autocommit mode."""
        return await psycopg.AsyncConnection.connect(self.url, autocommit=True, connect_timeout=CONNECT_S)

    def failure_of(self, error: psycopg.Error) -> CallError:
        """Convert an error of the database driver to a CallError: AuthError, Unavailable or Rejected."""
        text = redact(f"{self.user}: {type(error).__name__}: {error}".strip())
        if isinstance(error, AUTH_ERRORS) or "authentication" in str(error):
            return AuthError(f"{text} (key: {self.variables})" if self.variables else text)
        return Unavailable(text) if isinstance(error, psycopg.OperationalError) else Rejected(text)


def storable(text: str) -> str:
    """Replace the characters that PostgreSQL cannot store: NUL and unpaired surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def json_body(tree: Mapping[str, object]) -> str:
    """Return the tree as JSON that PostgreSQL can store: NUL and unpaired surrogates in its texts are replaced."""
    return json.dumps(_storable(tree), ensure_ascii=False)


def _storable(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): _storable(inner) for key, inner in value.items()}
    return [_storable(inner) for inner in value] if isinstance(value, list | tuple) else value


def vector_literal(vector: Sequence[float]) -> str:
    """Return a vector in the notation of pgvector, such as ``[0.1,0.2]``."""
    return f"[{','.join(map(repr, vector))}]"
