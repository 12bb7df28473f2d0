"""Both batch APIs and the live endpoints next to them: every processed request is paid, each time it is processed.

Example::

    stub = BatchStub()
    url = await servers.start(stub.handle)
    stub.paid                      # body -> how often it was processed
    stub.hang(3, after=True)       # the third request is processed and never answered
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
from aiohttp import web

VERDICT = {"correctness": 1, "faithfulness": 1, "reasoning": "same"}
LOOKS = 2
"""number of requests for the state of a batch until it has ended"""


@dataclass(slots=True)
class Job:
    """A batch."""

    id: str
    requests: dict[str, dict[str, Any]]
    metadata: Mapping[str, str] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: int = 0


@dataclass(slots=True)
class BatchStub:
    """A vendor with both dialects."""

    paid: Counter[str] = field(default_factory=Counter)
    jobs: dict[str, Job] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    fate: Callable[[int, dict[str, Any]], str] = lambda number, body: "ok"
    """number of the batch from 1, body -> ok, expired, cancelled, bad (400), overloaded"""
    outage: Callable[[], str] = lambda: ""
    """whether a request is answered with 503, ``before`` or ``after`` it is processed"""
    missing: int = 0
    """status of every request of an endpoint that has no batches"""
    reached: anyio.Event = field(default_factory=anyio.Event)
    _files: dict[str, str] = field(default_factory=dict)
    _hang: tuple[int, bool] | None = None

    def hang(self, number: int, *, after: bool) -> None:
        """Never answer the request of that number from now on; ``after``: process it first."""
        self.reached = anyio.Event()
        self._hang = (len(self.seen) + number, after)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        call = f"{request.method} {request.path}"
        self.seen.append(call)
        number = len(self.seen)
        hang = self._hang if self._hang is not None and self._hang[0] == number else None
        if hang is not None and not hang[1]:
            await self._never()
        if self.missing:
            return web.Response(status=self.missing, text="no such thing")
        outage = self.outage()
        answer = None if outage == "before" else await self._answer(request)
        if outage or answer is None:
            return web.json_response({"error": {"message": "out of order"}}, status=503)
        if hang is not None:
            await self._never()
        return answer

    async def _never(self) -> None:
        self.reached.set()
        await anyio.sleep_forever()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method, path = request.method, request.path
        if path in ("/v1/chat/completions", "/v1/messages"):
            return web.json_response(self._reply(await request.json()))
        if method == "POST" and path == "/v1/files":
            form = await request.post()
            file: Any = form["file"]
            name = f"file-{len(self._files)}"
            self._files[name] = file.file.read().decode()
            return web.json_response({"id": name})
        if method == "POST":
            return web.json_response(self._shown(self._created(path, await request.json()), path))
        if path.endswith("/batches"):
            for job in self.jobs.values():
                self._look(job, path)
            found = [self._shown(job, path) for job in reversed(self.jobs.values())]
            return web.json_response({"data": found, "has_more": False})
        if path.startswith("/v1/files/"):
            return web.Response(text=self._files[path.split("/")[3]])
        job = self.jobs[path.removesuffix("/results").rsplit("/", 1)[1]]
        if path.endswith("/results"):
            return web.Response(text=_jsonl({"custom_id": name, "result": one} for name, one in job.outcomes.items()))
        self._look(job, path)
        return web.json_response(self._shown(job, path))

    def _look(self, job: Job, path: str) -> None:
        job.looks += 1
        if job.looks == LOOKS:
            self._process(job, path)

    def _created(self, path: str, tree: dict[str, Any]) -> Job:
        if "requests" in tree:
            requests = {one["custom_id"]: one["params"] for one in tree["requests"]}
        else:
            lines = [json.loads(line) for line in self._files[tree["input_file_id"]].splitlines()]
            requests = {line["custom_id"]: line["body"] for line in lines}
        job = Job(f"batch_{len(self.jobs) + 1}", requests, tree.get("metadata") or {})
        self.jobs[job.id] = job
        return job

    def _process(self, job: Job, path: str) -> None:
        number = int(job.id.rpartition("_")[2])
        anthropic = "/messages/" in path
        for name, body in job.requests.items():
            fate = self.fate(number, body)
            outcome: dict[str, Any] = {"type": "expired"}
            if fate == "ok":
                outcome = {"type": "succeeded", "message": self._reply(body)}
            elif fate == "cancelled":
                outcome = {"type": "canceled"}
            elif fate != "expired":
                kind = {"bad": "invalid_request_error", "overloaded": "overloaded_error"}[fate]
                outcome = {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": fate}}}
            job.outcomes[name] = outcome
        if not anthropic:
            good = {name: one for name, one in job.outcomes.items() if one["type"] == "succeeded"}
            rest = {name: one for name, one in job.outcomes.items() if name not in good and one["type"] != "canceled"}
            self._files[f"out-{job.id}"] = _jsonl(_line(name, one) for name, one in good.items())
            self._files[f"err-{job.id}"] = _jsonl(_line(name, one) for name, one in rest.items())

    def _shown(self, job: Job, path: str) -> dict[str, Any]:
        done, now = bool(job.outcomes), datetime.now(UTC)
        if "/messages/" in path:
            kinds = Counter(one["type"] for one in job.outcomes.values())
            counts = kinds if done else {"processing": len(job.requests)}
            status = "ended" if done else "in_progress"
            return {
                "id": job.id, "processing_status": status, "created_at": now.isoformat(), "request_counts": counts,
            }  # fmt: skip
        files = {"output_file_id": f"out-{job.id}", "error_file_id": f"err-{job.id}"} if done else {}
        cut = any(one["type"] == "canceled" for one in job.outcomes.values())
        status = "cancelled" if cut else "completed" if done else "in_progress"
        return {"id": job.id, "status": status, "created_at": now.timestamp(), "metadata": job.metadata, **files}

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        self.paid[json.dumps(body, sort_keys=True)] += 1
        text = json.dumps(body["messages"])
        codes = re.findall(r"opens with (\w+)", text)
        content = json.dumps(VERDICT) if body["model"] == "j1" else (codes[0] if codes else "unknown")
        if "response_format" in body or ("tools" not in body and "seed" in body):
            usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            return {"model": body["model"], "choices": [choice], "usage": usage}
        block: dict[str, Any] = {"type": "text", "text": content}
        if "tools" in body:
            block = {"type": "tool_use", "name": "reply", "input": VERDICT}
        usage = {"input_tokens": 1000, "output_tokens": 10}
        stop = "tool_use" if "tools" in body else "end_turn"
        return {"model": body["model"], "content": [block], "stop_reason": stop, "usage": usage}


def _line(name: str, outcome: dict[str, Any]) -> dict[str, Any]:
    if outcome["type"] == "succeeded":
        return {"custom_id": name, "response": {"status_code": 200, "body": outcome["message"]}, "error": None}
    if outcome["type"] == "expired":
        return {"custom_id": name, "response": None, "error": {"code": "batch_expired", "message": "too late"}}
    kind = outcome["error"]["error"]["type"]
    status = {"invalid_request_error": 400, "overloaded_error": 503}[kind]
    usage = {"usage": {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100}} if status == 400 else {}
    tree = {"error": {"message": kind}, **usage}
    return {"custom_id": name, "response": {"status_code": status, "body": tree}, "error": None}


def _jsonl(lines: Any) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)
