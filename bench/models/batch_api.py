"""Send, look up and read batches at the batch endpoints of OpenAI and Anthropic.

Example::

    api = batch_api("openai", target, http, endpoint)
    remote = await api.create("a1b2c3d4", {"a1b2c3d4-0f...-0": body})      # the vendor's id
    if (ended := await api.ended(remote)) is not None:
        outcomes = await api.results(ended)                           # custom id -> BatchOutcome

If it is unknown whether a batch was created, bench searches for the batch by the key that bench gave it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from bench.errors import ConfigError, MappingError, Rejected
from bench.fast_dataclass import dataclass
from bench.http import Endpoint, FormField, Http, Request, Response
from bench.models.names import Target
from bench.untyped_values import object_or_empty

METADATA = "bench_batch"
PAGE = 100
CLOCK_TOLERANCE = timedelta(minutes=10)
"""a search for a batch also reads batches that seem this much older, because the vendor's clock may be behind"""
WINDOW = "24h"
EXPIRED = 0
"""status of a request that the vendor neither processed nor billed"""
STATUSES: Mapping[str, int] = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "overloaded_error": 529,
}  # fmt: skip
"""Anthropic's error type -> equivalent HTTP status; an error type that is not listed counts as 500"""
UNBILLED_CODES = frozenset({"batch_expired", "batch_cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcome:
    """The outcome of one request of a batch: its HTTP status and response body."""

    status: int
    body: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBatch:
    """A batch that has ended, with the vendor's JSON description of the batch."""

    id: str
    tree: Mapping[str, object]


class BatchApi(Protocol):
    """The batch endpoint of one vendor for one model."""

    async def create(self, key: str, bodies: Mapping[str, object]) -> str:
        """Create a batch and return the vendor's id of the batch.

        ``key`` is bench's own id of the batch. ``bodies`` maps the id of each call to its request body.
        """
        ...

    async def find(self, key: str, *, count: int, since: datetime) -> str | None:
        """Return the vendor's id of the batch with bench's id ``key``; None if this batch was never created.

        ``count`` is the number of its calls; ``since`` is the time at which bench tried to create it.

        Raises:
            BatchNotEnded: a batch must end before its key can be read and compared.
        """
        ...

    async def ended(self, remote: str) -> EndedBatch | None:
        """Return the batch if it has ended; None if the vendor is still processing it."""
        ...

    async def results(self, batch: EndedBatch) -> dict[str, BatchOutcome]:
        """Return the outcome of each call by call id. A call that is missing in the result was not processed."""
        ...


def batch_api(dialect: str, target: Target, http: Http, endpoint: Endpoint) -> BatchApi:
    """Return the batch endpoint for a model.

    Raises:
        ConfigError: no batch endpoint is known for the model's vendor.
    """
    client = BatchClient(http, endpoint, target)
    if dialect == "openai" and target.prefix != "azure":
        return OpenAIBatches(client, target.base_url)
    if dialect == "anthropic":
        return AnthropicBatches(client, target.base_url.removesuffix("/v1") + "/v1/messages/batches")
    raise ConfigError(f"{target.name} has no known batch endpoint", hint="remove --batch")


class BatchClient:
    """A client that sends requests to a batch endpoint with the API key of one model."""

    def __init__(self, http: Http, endpoint: Endpoint, target: Target) -> None:
        self._http = http
        self._endpoint = endpoint
        self._target = target

    async def get(self, url: str, query: tuple[tuple[str, str], ...] = ()) -> Response:
        target = self._target
        request = Request("GET", url, headers=target.headers, query=(*target.query, *query))
        return await self._http.call(self._endpoint, request)

    async def post(
        self, url: str, tree: object = None, *, form: Mapping[str, str | FormField] | None = None
    ) -> Mapping[str, object]:
        target = self._target
        request = Request(
            "POST", url, headers=target.headers, query=target.query, json=tree, multipart=form,
            idempotent=form is not None,
        )  # fmt: skip
        return object_or_empty((await self._http.call(self._endpoint, request)).json())

    async def tree(self, url: str) -> Mapping[str, object]:
        return object_or_empty((await self.get(url)).json())

    async def pages(self, url: str, cursor: str) -> AsyncIterator[Mapping[str, object]]:
        """Yield all batches of the account, newest first. The pages of the vendor's list are requested one by one."""
        after: tuple[tuple[str, str], ...] = ()
        while True:
            page = object_or_empty((await self.get(url, (("limit", str(PAGE)), *after))).json())
            found = page.get("data")
            batches = [object_or_empty(one) for one in found] if isinstance(found, list) else []
            for one in batches:
                yield one
            if not page.get("has_more") or not batches:
                return
            after = ((cursor, str(page.get("last_id") or batches[-1].get("id"))),)


class OpenAIBatches:
    """The BatchApi of OpenAI: ``/files`` and ``/batches``."""

    def __init__(self, client: BatchClient, base_url: str) -> None:
        self._client = client
        self._base_url = base_url

    async def create(self, key: str, bodies: Mapping[str, object]) -> str:
        lines = (
            {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}
            for name, body in bodies.items()
        )
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        file = FormField(content=data, filename=f"{key}.jsonl", type="application/jsonl")
        sent = await self._client.post(f"{self._base_url}/files", form={"purpose": "batch", "file": file})
        wanted = {
            "input_file_id": _id(sent, "file"), "endpoint": "/v1/chat/completions", "completion_window": WINDOW,
            "metadata": {METADATA: key},
        }  # fmt: skip
        return _id(await self._client.post(f"{self._base_url}/batches", wanted), "batch")

    async def find(self, key: str, *, count: int, since: datetime) -> str | None:
        async for one in self._client.pages(f"{self._base_url}/batches", "after"):
            if object_or_empty(one.get("metadata")).get(METADATA) == key:
                return _id(one, "batch")
            created = one.get("created_at")
            if isinstance(created, int | float) and created < (since - CLOCK_TOLERANCE).timestamp():
                break
        return None

    async def ended(self, remote: str) -> EndedBatch | None:
        tree = await self._client.tree(f"{self._base_url}/batches/{remote}")
        ended = tree.get("status") in ("completed", "failed", "expired", "cancelled")
        return EndedBatch(id=remote, tree=tree) if ended else None

    async def results(self, batch: EndedBatch) -> dict[str, BatchOutcome]:
        found: dict[str, BatchOutcome] = {}
        files = [batch.tree.get(name) for name in ("output_file_id", "error_file_id")]
        for file in filter(None, files):
            response = await self._client.get(f"{self._base_url}/files/{file}/content")
            for line in _lines(response):
                found[str(line.get("custom_id"))] = _openai_outcome(line)
        if batch.tree.get("status") == "failed" and not found:
            reasons = _errors(batch.tree)
            raise Rejected(f"batch {batch.id} failed: {reasons}")
        return found


def _openai_outcome(line: Mapping[str, object]) -> BatchOutcome:
    reply, error = object_or_empty(line.get("response")), object_or_empty(line.get("error"))
    status = reply.get("status_code")
    if isinstance(status, int):
        return BatchOutcome(status=status, body=reply.get("body"))
    return BatchOutcome(status=EXPIRED if error.get("code") in UNBILLED_CODES else 500, body={"error": dict(error)})


class AnthropicBatches:
    """The BatchApi of Anthropic: ``/v1/messages/batches``."""

    def __init__(self, client: BatchClient, url: str) -> None:
        self._client = client
        self._url = url

    async def create(self, key: str, bodies: Mapping[str, object]) -> str:
        requests = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        return _id(await self._client.post(self._url, {"requests": requests}), "batch")

    async def find(self, key: str, *, count: int, since: datetime) -> str | None:
        async for one in self._client.pages(self._url, "after_id"):
            created = datetime.fromisoformat(str(one.get("created_at")))
            if created < since - CLOCK_TOLERANCE:
                break
            counts = [each for each in object_or_empty(one.get("request_counts")).values() if isinstance(each, int)]
            if sum(counts) == count and await self._is_ours(key, one):
                return _id(one, "batch")
        return None

    async def _is_ours(self, key: str, tree: Mapping[str, object]) -> bool:
        remote = _id(tree, "batch")
        if tree.get("processing_status") != "ended":
            raise BatchNotEnded(
                f"batch {remote} may belong to this run: its ids cannot be read before the batch has ended"
            )
        found = await self.results(EndedBatch(id=remote, tree=tree))
        return any(name.startswith(f"{key}-") for name in found)

    async def ended(self, remote: str) -> EndedBatch | None:
        tree = await self._client.tree(f"{self._url}/{remote}")
        return EndedBatch(id=remote, tree=tree) if tree.get("processing_status") == "ended" else None

    async def results(self, batch: EndedBatch) -> dict[str, BatchOutcome]:
        response = await self._client.get(f"{self._url}/{batch.id}/results")
        return {
            str(line.get("custom_id")): _anthropic_outcome(object_or_empty(line.get("result")))
            for line in _lines(response)
        }


class BatchNotEnded(Exception):
    """Raised if a batch may be the one that bench looks for, but its key can be read only after its end."""


def _anthropic_outcome(result: Mapping[str, object]) -> BatchOutcome:
    match result.get("type"):
        case "succeeded":
            return BatchOutcome(status=200, body=result.get("message"))
        case "errored":
            error = object_or_empty(result.get("error"))
            inner = object_or_empty(error.get("error")) or error
            return BatchOutcome(status=STATUSES.get(str(inner.get("type")), 500), body=error)
        case _:
            return BatchOutcome(status=EXPIRED)


def _lines(response: Response) -> list[Mapping[str, object]]:
    try:
        return [object_or_empty(json.loads(line)) for line in response.text.split("\n") if line.strip()]
    except ValueError as error:
        raise MappingError(f"{response.request}: a line of the results is not JSON: {error}") from error


def _errors(tree: Mapping[str, object]) -> str:
    found = object_or_empty(tree.get("errors")).get("data")
    errors = [object_or_empty(one) for one in found] if isinstance(found, list) else []
    return "; ".join(str(one.get("message") or one.get("code")) for one in errors[:3]) or "the endpoint gave no reason"


def _id(tree: Mapping[str, object], kind: str) -> str:
    found = tree.get("id")
    if not isinstance(found, str) or not found:
        raise MappingError(f"the response must have the id of the {kind}; got {str(tree)[:200]}")
    return found
