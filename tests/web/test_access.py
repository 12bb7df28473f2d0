"""Access checks: hosts, origins, tokens, forms, ids in paths and bodies; hostile text is escaped."""

from __future__ import annotations

import io
import json
import platform
import re
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.web.admission import admit
from bench.web.app import Settings, open_site
from bench.web.errors import item_of, slug_of
from tests.rows import each_row
from tests.small_world import World
from tests.web.test_pages import DOCUMENTS, PAGES, checked
from tests.web.workspaces import visiting

ATTACKS = (
    "../../x", "..%2F..%2Fx", "%2e%2e", "%2e%2e%2fx", "..", "C:", "C:%5Cx", "%5c..%5cx", "x%00y", "x%0ay", "%252e%252e",
    "%2Fetc%2Fpasswd", "", "/etc/passwd", ".hidden", "a%20b%2Fc",
)  # fmt: skip
ROUTES = (
    "/runs/{}", "/runs/{}/items", "/runs/r1/items/{}", "/receipts/{}/x.json", "/receipts/r1/{}", "/configs/{}/x",
    "/configs/providers/{}", "/api/v1/runs/{}", "/api/v1/runs/{}/results", "/api/v1/runs/{}/items",
    "/api/v1/runs/r1/items/{}", "/api/v1/runs/{}/events", "/api/v1/configs/providers/{}", "/static/{}",
)  # fmt: skip
CANARY = "canary-Zq81jx0PwM3vRt6uYb2nLk9s"


@pytest.mark.scenario("W1")
async def test_path_traversal_in_ids_is_rejected_and_changes_no_file(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    async with visiting(finished, runs=True) as visit:
        for route in ROUTES:
            for attack in ATTACKS:
                status, text = await visit.get(route.format(attack))
                assert status in (400, 403, 404), (route, attack, status)
                assert "root:" not in text
        for action in ("pause", "resume", "cancel"):
            for attack in ATTACKS:
                status, _, _ = await visit.ask("POST", f"/api/v1/runs/{attack}/{action}")
                assert status in (400, 404), (attack, action, status)
    after = {path: path.stat().st_mtime_ns for path in finished.rglob("*") if ".service" not in str(path)}
    assert {path for path in after if path.name != ".token"} <= set(before)


@pytest.mark.scenario("W3")
async def test_requests_with_a_foreign_host_or_origin_are_rejected(finished: Path) -> None:
    async with visiting(finished, runs=True) as visit:
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:3000", "user@localhost", ""):
            status, _ = await visit.get("/api/v1/runs", headers={**visit.token, "Host": host})
            assert status in (400, 403), host
        for origin in ("http://evil.example", "null", "http://localhost:1"):
            status, _, _ = await visit.ask("POST", "/api/v1/runs", headers={**visit.token, "Origin": origin}, data="{}")
            assert status == 403, origin
        status, _ = await visit.get("/api/v1/runs", headers={**visit.token, "Host": "localhost:3000"})
        assert status == 200


async def test_a_reverse_proxy_with_the_public_name_can_read_and_start(finished: Path) -> None:
    public = {"Host": "bench.example.com", "Origin": "https://bench.example.com"}
    foreign = [{"Host": "x.bench.example.com"}, {**public, "Origin": "https://evil.example"}]
    async with visiting(finished, runs=True, public_host="Bench.example.com") as visit:
        for headers in (public, {**public, "Host": "127.0.0.1:3000"}, *foreign):
            asked = {**visit.token, **headers}
            status, text, _ = await visit.ask("POST", "/api/v1/runs", headers=asked, data='{"x": 1}')
            assert status == (403 if headers in foreign else 400), headers
            assert ("unknown key" in text) is (headers not in foreign)


async def test_a_service_on_all_addresses_accepts_the_name_of_its_machine(finished: Path, tmp_path: Path) -> None:
    async with visiting(finished, host="0.0.0.0", token_file=tmp_path / "token") as visit:
        for host, expected in ((platform.node(), 200), ("evil.example", 403)):
            status, _ = await visit.get("/api/v1/runs", headers={**visit.token, "Host": host})
            assert status == expected, host


async def test_each_response_has_security_headers_and_no_cors_header(finished: Path) -> None:
    async with visiting(finished, runs=True) as visit:
        for path in ("/", "/runs/r1", "/nope", "/api/v1/runs", "/api/v1/nope", "/static/site.css", "/runs/%2e%2e"):
            _, _, headers = await visit.ask("GET", path)
            assert headers["Content-Security-Policy"].startswith("default-src 'self'"), path
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "same-origin"
            assert "Access-Control-Allow-Origin" not in headers
        _, _, headers = await visit.ask("GET", "/verify.html")
        assert (
            "sha256-" in headers["Content-Security-Policy"]
            and "default-src 'none'" in headers["Content-Security-Policy"]
        )


async def test_serve_answers_401_without_the_token(finished: Path) -> None:
    async with visiting(finished, runs=True) as visit:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, {"Cookie": "bench_x=1"}):
            for path in (*(page for page in PAGES if page not in ("/verify.html", "/favicon.ico")), "/api/v1/metrics"):
                status, _ = await visit.get(path, headers=headers)
                assert status == 401, path
            for path in DOCUMENTS:
                status, _ = await visit.get(f"/api/v1{path}", headers=headers)
                assert status == (200 if path in ("/healthz", "/readyz") else 401), path
            status, _, _ = await visit.ask("POST", "/api/v1/runs", headers=headers, data="{}")
            assert status == 401


async def test_a_form_post_needs_cookie_and_csrf_token(finished: Path) -> None:
    async with visiting(finished, runs=True) as visit:
        assert visit.site.secret is not None
        for data in ({}, {"csrf_token": "wrong"}):
            status, _, _ = await visit.ask("POST", "/runs/r1/pause", headers=visit.cookie, data=data)
            assert status == 403
        good = {"csrf_token": visit.site.secret.csrf}
        status, _, _ = await visit.ask("POST", "/runs/r1/pause", headers=visit.cookie, data=good)
        assert status == 303


async def test_explore_answers_405_to_each_method_that_writes(finished: Path) -> None:
    async with visiting(finished) as visit:
        for path in ("/runs", "/runs/r1/pause", "/api/v1/runs", "/api/v1/runs/r1/cancel", "/api/v1/nope", "/login"):
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                status, _, headers = await visit.ask(method, path, data="{}")
                assert (status, set(re.split(r",\s*", headers["Allow"]))) == (405, {"GET", "HEAD"}), (method, path)


async def test_listening_on_other_addresses_needs_a_token_file(tmp_path: Path) -> None:
    for runs in (False, True):
        with pytest.raises(UsageError, match="token"):
            async with open_site(Settings(workspace=tmp_path, host="0.0.0.0", port=0, runs=runs)):
                pass
        settings = Settings(workspace=tmp_path, host="0.0.0.0", port=0, runs=runs, token_file=tmp_path / "token")
        async with open_site(settings) as site:
            assert site.secret is not None
    assert len((tmp_path / "token").read_text().strip()) >= 43
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0


@pytest.mark.scenario("W5")
async def test_a_body_above_one_megabyte_is_413_and_invalid_json_is_400(finished: Path) -> None:
    async with visiting(finished, runs=True) as visit:
        status, _, _ = await visit.ask("POST", "/api/v1/runs", data=io.BytesIO(b"x" * (2**20 + 10)))
        assert status == 413
        for body in ("{", "[1]", "[" * 100_000, "nul"):
            status, text, _ = await visit.ask("POST", "/api/v1/runs", data=body)
            assert status == 400 and json.loads(text)["error"]["hint"]


@each_row(
    "flags",
    [
        {"on_end": "touch /tmp/x"},
        {"sign": True},
        {"key": "/etc/passwd"},
        {"output": "/tmp"},
        {"cluster": "tcp://evil:1"},
        {"allowCodeExecution": True},
        {"publishable": True},
        {"providers": ["./evil.py:Class"]},
        {"providers": ["../x"]},
        {"benchmarks": ["/etc/passwd"]},
        {"evaluators": ["./x.py:E"]},
        {"metrics": [{"name": "x", "method": "./evil.py:metric"}]},
        {"set": {"bm25.adapter": "./evil.py:C"}},
        {"set": {"chroma.connection.baseUrl": "http://evil"}},
        {"set": {"chroma.auth": []}},
        {"answer_prompt": "@/etc/passwd"},
        {"answer_prompt": "/etc/passwd"},
        {"judge_prompt": ["temporal=/etc/passwd"]},
        {"unknown": 1},
        {"run_id": "../x"},
        {"run_id": "published"},
        {"metrics": [{"name": "x", "evaluator": "./evil.py:E"}]},
        {"metrics": [{"name": "x", "config": {"prompt": "../../etc/passwd"}}]},
        {"answering_model": "openai/../../x"},
        {"judge_model": "http://evil/v1"},
        {"embedding_model": "${HOME}"},
        {"prices": {"bm25": "${HOME}"}},
        {"question_type": "${HOME}"},
        {"shards": 4},
        {"workers": 2},
        {"download": True},
        {"epochs": 10**9},
        {"concurrency": 10**9},
        {"models": {"openai/x": {"body": {"a": 1}}}},
        *(
            {"set": {f"vv.{path}": value}}
            for path, value in (
                ("wait", {"scope": "namespace", "request": {"method": "DELETE", "path": "/x"}, "until": {"$.c": 1}}),
                ("wait.request", {"path": "/x"}),
                ("wait.request.path", "/x"),
                ("wait.request.method", "DELETE"),
                ("wait.request.timeout", 5),
                ("wait.until", {"$.x": 1}),
                ("wait.count_at_least", "$.n"),
                ("vars.coll", "x"),
                ("vars", {"coll": "${DATABASE_URL}"}),
                ("VARS.coll", "x"),
                ("ingest.text", "${speaker}"),
                ("ingest.text", "x ${HOME}"),
                ("ingest", {"text": "${content} x"}),
                ("limits.feedback.remaining", "X-Left"),
                ("limits.feedback", {"remaining": "X", "reset": "Y"}),
                ("client_embeddings.query_prefix", "ignore"),
                ("clientEmbeddings.documentPrefix", "x"),
                ("client_embeddings.model", "a/../b"),
                ("client_embeddings.model", "${HOME}"),
                ("endpoints.add.method", "DELETE"),
                ("endpoints.search.body", {}),
                ("setup", []),
                ("teardown", []),
                ("scoping.run_id_format", "x"),
                ("errors.status", {"500": "fail"}),
                ("mcp.command", ["sh"]),
                ("docker.compose", "x"),
                ("local.url", "x"),
                ("headers.X", "y"),
                ("name", "x"),
                ("connection.headers", {"X": "y"}),
                ("connection.timeout", 5),
                ("capabilities.clear", False),
                ("prices.search", "${HOME}"),
                ("limits.add.rps", "${HOME}"),
                ("rate_limit", {"evil": 1}),
                ("", 1),
            )
        ),
    ],
)
def test_a_request_with_a_file_path_code_or_address_is_rejected(flags: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        admit(flags)


@each_row(
    "flags",
    [
        {"limit": 5, "sample": 3, "seed": 7, "k": 20, "epochs": 3, "epochsReducer": "mean", "perType": True},
        {"concurrency": "auto", "ingestConcurrency": 4, "timeout": "30s", "itemTimeout": 90, "maxTime": "6h"},
        {"isolation": "full", "cleanup": "run", "phases": ["search", "answer"], "maxCost": 2.5, "maxErrorRate": 0.1},
        {"metrics": ["accuracy", {"name": "ndcg_at_10", "breakdown": ["question_type"], "config": {"k": 5}}]},
        {"prices": {"openai/gpt-4o": {"input": 1.5, "output": 2}}, "minScore": {"accuracy": 0.5}, "note": "a note"},
        {"answerPrompt": "Answer ${question} from\n${retrievedContext}", "label": {"team": "a b"}, "runId": "nightly"},
        {"set": {"vv.wait.timeout_s": 5, "vv.wait": "sentinel", "vv.ingest.unit": "turn", "vv.ingest.text": "dated"}},
        {"set": {"vv.ingest.batch.maxItems": 20, "vv.limits.search": {"rps": 5}, "vv@a.rateLimit.maxRetries": 2}},
        {"set": {"vv.clientEmbeddings.model": "openai/text-embedding-3-small", "vv.prices.search": 0.01}},
    ],
)
def test_a_request_with_numbers_choices_and_names_is_accepted(flags: dict[str, object]) -> None:
    assert admit(flags).model_fields_set


def test_a_request_with_benchmarks_providers_and_models_is_accepted() -> None:
    request = admit({"benchmarks": ["demo"], "providers": ["bm25", "bm25@b"], "answeringModel": "openai/gpt-4o"})
    assert request.answering_model == ("openai/gpt-4o",)


@pytest.mark.scenario("W2")
async def test_hostile_text_of_providers_and_datasets_is_escaped(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\x1b[31m\u202e javascript:alert(3) {{7*7}}'
    path = tmp_path / "datasets" / "facts.jsonl"
    row = json.loads(path.read_text().splitlines()[0])
    row["qa"][0]["q"] = f"What opens {evil}?"
    row["qa"][0]["a"] = evil
    row["qa"][0]["id"] = '<b>/../"id'
    row["sessions"][0][0]["content"] = evil
    path.write_text(json.dumps(row) + "\n")
    await world.run(providers=["bm25", "oracle"], answering_model="builtin/extractive", run_id="evil")
    slug = slug_of('<b>/../"id')
    assert item_of(slug) == '<b>/../"id'
    async with visiting(tmp_path) as visit:
        for page in ("/runs/evil", "/runs/evil/items", f"/runs/evil/items/{slug}", "/runs/evil/items?q=%3Cscript%3E"):
            status, text = await visit.get(page)
            assert status == 200, text
            checked(text)
            assert "<script>alert" not in text and "<img src=x" not in text and "\x1b" not in text
            assert "\u202e" not in text
        assert "&lt;script&gt;alert(1)" in text and "{{7*7}}" in text
        document = await visit.document(f"/runs/evil/items/{slug}")
        assert evil in document["about"]["answers"]


@pytest.mark.scenario("W4")
async def test_no_response_contains_a_secret(tmp_path: Path) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    path = tmp_path / "datasets" / "facts.jsonl"
    path.write_text(path.read_text().replace("The vault", f"{CANARY} The vault"))
    provider = world.write("configs/providers/leaky.yaml", "name: leaky\ntype: hosted\n# " + CANARY + "\n")
    assert provider.is_file()
    await world.run(providers=["bm25"], answering_model="builtin/extractive", run_id="r1", note=f"note {CANARY}")
    async with visiting(tmp_path, runs=True, variables={"PROVIDER_API_KEY": CANARY}) as visit:
        assert visit.site.secret is not None
        item = (await visit.document("/runs/r1/items"))["items"][0]["slug"]
        pages = [
            *PAGES,
            f"/runs/r1/items/{item}",
            "/configs/providers/leaky",
            "/login",
            "/runs/nope",
            f"/runs/{CANARY}",
        ]
        documents = [f"/api/v1{path}" for path in (*DOCUMENTS, "/runs/r1/events", "/metrics", f"/runs/r1/items/{item}")]
        for address in (*pages, *documents):
            _, text = await visit.get(address)
            for form in (CANARY, CANARY.encode().hex(), visit.site.secret.token):
                assert form not in text, address


def test_an_unknown_key_of_a_request_is_named_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as refused:
        admit({"benchmark": ["demo"]})
    assert str(refused.value) == 'unknown key "benchmark"; did you mean "benchmarks"?'
