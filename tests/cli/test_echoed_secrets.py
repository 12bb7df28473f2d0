"""A provider that repeats requests in errors and hits: no form of a secret is ever written."""

from __future__ import annotations

import html
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zstandard

Bench = Callable[..., Any]
CONFIG = """\
name: ec
type: hosted
connection:
  baseUrl: "{url}"
  headers: {{X-Org: "${{EC_ORG}}"}}
auth:
  - {{type: bearer, envVar: EC_API_KEY}}
  - {{type: query, envVar: EC_QKEY, param: apikey}}
  - {{type: basic, envVar: EC_PASS, user: me, header: X-Basic}}
vars: {{tenant: "${{EC_TENANT}}"}}
endpoints:
  add:
    method: POST
    path: "/v1/add"
    body: {{id: $.id, content: $.content, namespace: $.runTag, sec: "${{EC_BODY}}"}}
  search:
    method: POST
    path: "/v1/${{tenant}}/search"
    body: {{query: $.query, namespace: $.runTag, limit: $.k, sec: "${{EC_BODY}}"}}
    response: {{results: $.results, contentField: $.memory, scoreField: $.score, id_from: [{{field: $.id}}]}}
  clear: {{method: DELETE, path: "/v1/namespaces/${{runTag}}"}}
  version: {{method: GET, path: /v1/version, value: $.version}}
rateLimit: {{maxRetries: 0, retryDelayMs: 1}}
"""
SECRETS = {
    "EC_API_KEY": 'canaryA/with+slash=="q',
    "EC_QKEY": "canaryC with space",
    "EC_PASS": "canaryP\\back&<x>",
    "EC_ORG": "canaryD-in-a-header",
    "EC_BODY": "canaryE-in-a-body",
    "EC_TENANT": "../canaryT/of?a=variable",
}


class Echo(BaseHTTPRequestHandler):
    """Stores memories; replies to a question with an echo of its whole request, in one of five forms."""

    memories: dict[str, dict[str, str]]
    paths: list[str]
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        held = self.memories.setdefault(asked["namespace"], {})
        self.paths.append(self.path)
        if "/v1/add" in self.path:
            held[asked["id"]] = asked["content"]
            return self.reply(200, {"id": asked["id"], "status": "ok"})
        question = asked["query"]
        echo = {"headers": dict(self.headers), "path": self.path, "body": asked["sec"]}
        text = json.dumps(echo)
        if not question.endswith("?"):
            hits = [{"id": i, "memory": t, "score": 1} for i, t in held.items() if question.split()[0] in t]
            return self.reply(200, {"results": hits[: asked["limit"]]})
        match len(question) % 5:
            case 0:
                return self.reply(400, echo)
            case 1:
                return self.send(400, text.replace("/", "\\/"))
            case 2:
                return self.send(400, f"<pre>{html.escape(text)}</pre>")
            case 3:
                return self.reply(200, {"oops": echo})
        hit = {"id": "x", "memory": f"echo {text} {echo}", "score": 1, "metadata": echo}
        own = [{"id": i, "memory": t, "score": 1} for i, t in list(held.items())[:3]]
        return self.reply(200, {"results": [*own, hit]})

    def do_GET(self) -> None:
        self.reply(200, {"version": f"1.0 {json.dumps(dict(self.headers))}"})

    def do_DELETE(self) -> None:
        self.memories.pop(self.path.partition("?")[0].rpartition("/")[2], None)
        self.reply(200, {"cleared": 1})

    def reply(self, status: int, value: object) -> None:
        self.send(status, json.dumps(value))

    def send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[tuple[str, list[str]]]:
    paths: list[str] = []
    handler = type("OwnEcho", (Echo,), {"memories": {}, "paths": paths})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()
    thread.join()


def everything_written(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each file as text, and each cell of each journal, decompressed."""
    for path in folder.rglob("*"):
        if path.is_file() and "configs" not in path.parts:
            yield str(path), path.read_bytes().decode("utf-8", "replace")
            if path.suffix == ".sqlite":
                with sqlite3.connect(path) as journal:
                    yield from cells(path, journal)
                journal.close()


def cells(path: Path, journal: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for (table,) in journal.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        for row in journal.execute(f'SELECT * FROM "{table}"').fetchall():
            for cell in row:
                if isinstance(cell, bytes) and cell.startswith(b"\x28\xb5\x2f\xfd"):
                    yield f"{path}:{table}", zstandard.decompress(cell).decode("utf-8", "replace")
                elif isinstance(cell, str):
                    yield f"{path}:{table}", cell


def test_no_form_of_a_secret_is_written_if_a_provider_repeats_its_requests(
    bench: Bench, tmp_path: Path, echo: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, paths = echo
    (tmp_path / "configs/providers").mkdir(parents=True)
    (tmp_path / "configs/providers/ec.yaml").write_text(CONFIG.format(url=url))
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    flags = ("--max-error-rate", "1", "--no-circuit-breaker", "--display", "none", "--run-id", "can")
    done = bench("run", "--providers", "ec", "--limit", "25", *flags, check=None)
    assert done.returncode in (0, 4), done.stderr
    exported = bench("export", "can", "--format", "jsonl", "--output", "-").stdout
    rows = [json.loads(line) for line in exported.splitlines()]
    bench("export", "can", "--format", "csv", "--output", "can.csv")
    bench("results", "can", "--html", "can.html")
    failures = bench("failures", "can").stdout
    texts = [*everything_written(tmp_path), ("export", exported), ("out", done.stdout + done.stderr + failures)]
    assert [place for place, text in texts if "canary" in text] == []
    echoed = [row for row in rows if row["hits"] and any("[redacted]" in hit["content"] for hit in row["hits"])]
    assert echoed and all("oops" not in json.dumps(row["hits"]) for row in rows)
    assert any('"upstream":"1.0 {' in text for _, text in texts), "the version is written"
    assert "hits_redacted" in "".join(text for _, text in texts), "a redacted hit is flagged"
    searched = {path.partition("?")[0] for path in paths if "search" in path}
    assert searched == {"/v1/..%2FcanaryT%2Fof%3Fa%3Dvariable/search"}, "a value is one segment of a path"
