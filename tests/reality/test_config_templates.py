"""Templates in a provider config: filled in where allowed, an error elsewhere; id patterns; NDJSON bodies."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from aiohttp import web

from bench.config.value_rules import LONGEST_TEXT, pattern_problem
from bench.errors import ConfigError
from bench.model import Memory
from tests.cpu_time import at_most
from tests.providers.declared import declared, playing
from tests.reality.conftest import WorldOn
from tests.reality.memory_stub import MemoryStub
from tests.rows import each_row

FORM = "endpoints.search.response.id_from"


@each_row(
    ("form", "filed"),
    [
        ({"tag_prefix": "${runTag}-", "field": "$.file"}, "{ns}-m0"),
        ({"tag_prefix": "run ${runId}/", "field": "$.file"}, "run r1/m0"),
        ({"pattern": "^${runTag}-(.*)\\.txt$", "field": "$.file"}, "{ns}-m0.txt"),
        ({"pattern": "^(.*)@", "field": "$.file"}, "m0@somewhere"),
        ({"pattern": "${folder}/(m[0-9]+)", "field": "$.file"}, "a+b/m0"),
    ],
)
async def test_id_from_extracts_the_id_with_tag_prefix_or_pattern(form: dict[str, str], filed: str) -> None:
    changes: dict[str, object] = {FORM: [form], "vars": {"folder": "a+b"}}
    rows: list[dict[str, str]] = []
    async with playing(changes, {"POST /search": {"results": rows}}) as play:
        await play.ingest(Memory(id="m0", content="x"))
        rows.append({"text": "x", "file": filed.replace("{ns}", play.space.namespace)})
        assert (await play.search()).hits[0].source_ids == ("m0",)


@each_row(
    ("path", "text"),
    [
        (FORM, [{"tag_prefix": "${runtag}-", "field": "$.file"}]),
        (FORM, [{"pattern": "^${nope}-(.*)$", "field": "$.file"}]),
        (FORM, [{"tag_prefix": "${query}-", "field": "$.file"}]),
        (FORM, [{"metadata": "${runTag}"}]),
        ("endpoints.search.response.contentField", "$.${runTag}"),
        ("client_embeddings", {"model": "openai/x", "query_prefix": "for ${runTag}: "}),
        ("connection.headers", {"X-Run": "${runId}"}),
        ("vars", {"place": "/v1/${runId}"}),
        ("errors", {"error_when": [{"path": "$.a", "equals": "${runId}", "kind": "rejected"}]}),
        ("wait", {"request": {"method": "GET", "path": "/s"}, "until": {"$.of": ["${runTag}"]}}),
        ("endpoints.add.idempotency", {"header": "X-${runId}"}),
        ("limits", {"feedback": {"remaining": "X-${user}", "reset": "X-Reset"}}),
    ],
)
def test_a_variable_without_a_value_is_a_config_error_with_its_place(path: str, text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        declared({path: text})
    shown = "\n".join(str(one) for one in caught.value.problems or (caught.value,))
    assert re.search(r"acme\.json:\d+:\d+: ", shown)
    assert "unknown variable" in shown or "is no path" in shown or "expected" in shown
    assert "known variables: " in caught.value.hint or "write $${" in caught.value.hint or "path" in shown


def test_escaped_templates_and_descriptions_may_contain_any_variable() -> None:
    config = declared(
        {"description": "uses ${anything}", "vars": {"a": "$${runId}"}, "endpoints.search.body.note": "$${x}"}
    )
    assert config.description == "uses ${anything}"


@each_row(
    "pattern",
    [
        "(",
        "abc",
        "(a)(b)",
        "(a+)+",
        "((a|b)*)*x",
        "(.*).*.*.*",
        "(a{1,99999})*",
        "(?:x+x+)+(y)",
        "((?:aa|a)+)$",
        "((?:a?){40}a{40})",
        f"({'a?' * 30}{'a' * 30})",
        "(b?(?:(?:a|aa)*)*)",
        "(a*a*(?:b|[a-z]x|.q))$",
    ],
)
def test_a_useless_or_slow_id_pattern_is_a_config_error(pattern: str) -> None:
    assert pattern_problem(pattern) is not None
    with pytest.raises(ConfigError, match="pattern"):
        declared({FORM: [{"pattern": pattern, "field": "$.file"}]})


@each_row("pattern", [r"^doc-(.*)\.txt$", "(.*)x(?:.*)y", r"^([0-9a-f]{8}-[0-9a-f]{4})", "(a|b)+$"])
def test_an_accepted_id_pattern_is_fast_on_the_longest_text(pattern: str) -> None:
    assert pattern_problem(pattern) is None
    compiled = re.compile(pattern)
    texts = ("a" * LONGEST_TEXT, "x" * LONGEST_TEXT, "doc-" + ".txt" * (LONGEST_TEXT // 4))
    at_most(0.5, lambda: [compiled.search(text + "!") for text in texts])


async def test_a_body_with_lines_operator_is_sent_as_ndjson(world_on: WorldOn) -> None:
    raw: list[tuple[str, bytes]] = []
    stub = MemoryStub()

    async def bulk(_call: int, request: web.Request, _body: object) -> web.Response:
        body = await request.read()
        raw.append((request.headers["Content-Type"], body))
        lines = [json.loads(line) for line in body.splitlines()]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            namespace = str(document.pop("namespace"))
            stub.spaces.setdefault(namespace, []).append({"id": action["index"]["_id"], **document})
        return web.json_response({"job_id": "j"})

    stub.answers = {"add": bulk}
    world = await world_on(stub, corpora=1, items=3)
    old = 'body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}'
    new = """body:
      $lines:
        $each: $.items
        $do: [{index: {_id: "@.id"}}, {content: "@.content", namespace: "${runTag}", metadata: "@.metadata"}]"""
    world.provider("faulty", extra="\n", **{old: new, "ingest__{on": "ingest: {batch: {max_items: 2}, on"})
    outcome = await world.run(providers="faulty")
    assert outcome.exit_code == 0
    assert {kind for kind, _ in raw} == {"application/x-ndjson"}
    assert all(body.endswith(b"\n") for _, body in raw)


def test_an_ndjson_body_without_lines_operator_is_a_config_error(tmp_path: Path) -> None:
    add = {
        "method": "POST",
        "path": "/_bulk",
        "headers": {"Content-Type": "application/x-ndjson"},
        "body": {"$each": "$.items", "$do": {"id": "@.id"}},
    }
    with pytest.raises(ConfigError, match="NDJSON") as caught:
        declared({"endpoints.add": add})
    assert "$lines" in caught.value.hint
