"""Cache model replies of all runs in one SQLite file per workspace, so that an equal call is paid only once.

Example::

    cache = CallCache(workspace / "checkpoints" / CACHE_FILE, mode="readwrite")
    model = CachedModel(chat_model, cache, identity)
    (await model.complete(prompt)).flags            # ("cached",): nothing was called, nothing was paid

The cache key contains everything that decides a reply: model, address, parameters, messages and epoch. A reply is not
stored if it failed, was truncated, is a refusal, is empty, does not fit its schema, or contains a known secret. Several
runs may use the file at the same time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from bench.errors import ConfigError
from bench.events import log, redactor
from bench.json_reply import ReplySchema
from bench.model import Completion, Model, Prompt, Usage
from bench.models.reply import CACHED, missing_answer_error

CACHE_FILE = "calls.sqlite"
VERSION = 1
"""version of the cache's format; part of each key, so that replies in an older format are not found"""
BUSY_S = 10.0
CacheMode = Literal["read", "write", "readwrite"]
NOT_STORED = ("latency_us", "attempts", "saved_usd")


class CallCache:
    """A cache of model replies in one file, which is opened when it is first used."""

    def __init__(self, path: Path, *, mode: CacheMode) -> None:
        self.path = path
        self.reads = mode != "write"
        self.writes = mode != "read"
        self._connection: sqlite3.Connection | None = None
        self._lock = anyio.Lock()
        self._failed = False

    def open(self) -> None:
        """Open the file; create it if it does not exist.

        Raises:
            ConfigError: the file is not a call cache.
        """
        try:
            self._connection = sqlite3.connect(self.path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS reply (key BLOB PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            self.close()
            raise ConfigError(
                f"the call cache cannot be opened: {error}", where=str(self.path), hint="delete this file"
            ) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def get(self, key: bytes) -> Completion | None:
        """Return the reply that is stored under the key.

        Return None if there is no such reply, or if the mode is "write".
        """
        rows = await self._run("SELECT body FROM reply WHERE key = ?", key) if self.reads else []
        return _read(rows[0][0]) if rows else None

    async def put(self, key: bytes, completion: Completion) -> None:
        """Store a reply, unless the key has a reply already or the mode is "read".

        A reply that contains a known secret is never stored.
        """
        body = json.dumps({name: value for name, value in asdict(completion).items() if name not in NOT_STORED})
        if self.writes and not redactor.holds_secret(body):
            await self._run("INSERT OR IGNORE INTO reply VALUES (?, ?)", key, body)

    async def _run(self, statement: str, *values: bytes | str) -> list[tuple[str, ...]]:
        """Execute one SQL statement. If the file has an error, log a warning once and return no rows."""
        async with self._lock:
            try:
                return await anyio.to_thread.run_sync(partial(self._execute, statement, values))
            except sqlite3.Error as error:
                if not self._failed:
                    log().warning("call_cache_failed", error=str(error), path=str(self.path))
                self._failed = True
                return []

    def _execute(self, statement: str, values: tuple[bytes | str, ...]) -> list[tuple[str, ...]]:
        if self._connection is None:
            self.open()
        assert self._connection is not None
        return self._connection.execute(statement, values).fetchall()


def count_replies(path: Path) -> int:
    """Return the number of replies in a cache file; 0 if the file does not exist or cannot be read."""
    if not path.is_file():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM reply").fetchone()[0])
    except sqlite3.Error:
        return 0
    finally:
        connection.close()


def _read(body: str) -> Completion | None:
    try:
        tree = json.loads(body)
        usage = tree.pop("usage")
        ignored, flags = tuple(tree.pop("ignored")), tuple(tree.pop("flags"))
        return Completion(usage=None if usage is None else Usage(**usage), ignored=ignored, flags=flags, **tree)
    except (ValueError, TypeError, KeyError):  # of another version, or damaged: the model is called
        return None


class CachedModel:
    """A model that returns replies from a cache, and calls another model if the cache has no reply."""

    def __init__(self, model: Model, cache: CallCache, identity: Mapping[str, object]) -> None:
        self._model = model
        self._cache = cache
        self._identity = identity
        """everything that decides a reply, except the prompt: model name, address and settings"""

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the cached reply for the prompt. If there is none, call the model and store its reply."""
        key = self._key(prompt)
        cached = await self._cache.get(key)
        if cached is not None:
            return replace(
                cached, flags=(*cached.flags, CACHED), saved_usd=cached.cost_usd, cost_usd="0", latency_us=0, attempts=0
            )
        completion = await self._model.complete(prompt)
        if _is_reusable(prompt, completion):
            await self._cache.put(key, replace(completion, flags=()))
        return completion

    def _key(self, prompt: Prompt) -> bytes:
        request = {
            "version": VERSION,
            "model": self._identity,
            "messages": [(message.role, message.content) for message in prompt.messages],
            "max_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "seed": prompt.seed,
            "schema": prompt.json_schema,
            "epoch": prompt.epoch,
        }
        return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()


def _is_reusable(prompt: Prompt, completion: Completion) -> bool:
    """Return True if a reply may be stored: it is complete, not empty, and fits the requested schema."""
    if (
        completion.finish != "stop"
        or not completion.text.strip()
        or missing_answer_error(completion) is not None
        or "prompt_cut" in completion.flags
    ):
        return False
    return prompt.json_schema is None or ReplySchema.of(prompt.json_schema).read(completion.text) is not None
