"""Calls of a provider file: required keys, and keys that exclude each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.calls import IdForm, MultipartSection, RequestSection, SearchResponse, VerifyCall, WaitBlock
from bench.config.provider.checks import calls_of
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from tests.rows import each_row

FILE = """\
name: acme
type: hosted
connection: {baseUrl: https://acme.test}
endpoints:
  add: {method: POST, path: /add, body: {text: "$.content"}}
  search:
    method: POST
    path: /find
    body: {q: "$.query", n: "$.k"}
    response: {results: "$.r", contentField: "$.t"}
  clear: {method: DELETE, path: "/u/${runTag}"}
"""


def load(old: str = "", new: str = "", more: str = "") -> ProviderConfig:
    assert old in FILE
    return load_provider(Source.parse(FILE.replace(old, new, 1) + more, Path("acme.yaml")))


def refused(old: str = "", new: str = "", more: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(old, new, more)
    return [str(one) for one in caught.value.problems or (caught.value,)]


ADD = "path: /add, body"
RESPONSE = 'response: {results: "$.r", contentField: "$.t"}'


@each_row(
    ("old", "new", "message"),
    [
        (ADD, "path: add, body", '5:23: endpoints.add.path: must start with "/" or "${"'),
        ("method: POST, path: /add", "method: POST", '5:3: endpoints.add: needs "method" and "path"'),
        ("method: POST, path: /add", "path: /add", '5:3: endpoints.add: needs "method" and "path"'),
        (
            "{method: POST, path: /add",
            "{method: GET, path: /add",
            '5:3: endpoints.add: a GET call cannot have a "body": use "query"',
        ),
        (
            ADD,
            "path: /add, multipart: {a: b}, body",
            '5:3: endpoints.add: "body" and "multipart" exclude each other: give one',
        ),
        (ADD, "path: /add, tool: t, body", '5:3: endpoints.add: a call with "tool" must not have "method" or "path"'),
        (
            ADD,
            "path: /add, steps: [{method: POST, path: /x}], body",
            '5:3: endpoints.add: a call with "steps" must not have "method" or "path"',
        ),
        (ADD, "path: /add, timeout: 0, body", "5:35: endpoints.add.timeout must be greater than 0, not 0"),
        (ADD, "path: /add, treat_as_ok: 404, body", "5:35: endpoints.add.treat_as_ok must be a list, not 404"),
        (RESPONSE, "response: {contentField: $.t}", '10:5: endpoints.search.response: needs either "results" or "zip"'),
        (
            RESPONSE,
            "response: {results: $.r, zip: {a: $.a}, contentField: $.t}",
            '10:5: endpoints.search.response: needs either "results" or "zip"',
        ),
        (RESPONSE, "response: {results: $.r}", '10:5: endpoints.search.response: needs "contentField"'),
        (
            RESPONSE,
            "response: {results: $.r, contentField: $.t, idField: $.i, id_from: none}",
            '10:5: endpoints.search.response: "idField" and "id_from" exclude each other: give one',
        ),
        (
            RESPONSE,
            "response: {results: $.r, contentField: $.t, scoreField: $.s, score: {field: $.s}}",
            '10:5: endpoints.search.response: "scoreField" and "score.field" exclude each other: give one',
        ),
        (
            RESPONSE,
            "response: {results: $.r, contentField: $.t, score: {kind: rnak}}",
            '10:57: endpoints.search.response.score.kind must be "similarity" or "distance" or "rank", not "rnak"; '
            'did you mean "rank"?',
        ),
        (
            "  clear: {",
            "  verify_clear: {method: GET, path: /x}\n  clear: {",
            '11:3: endpoints.verify_clear: needs either "empty" or "ok_status"',
        ),
        (
            "  clear: {",
            "  verify_clear: {method: GET, path: /x, empty: $.n, ok_status: [404]}\n  clear: {",
            '11:3: endpoints.verify_clear: needs either "empty" or "ok_status"',
        ),
        (
            "  clear: {",
            "  cuont: {method: GET, path: /x}\n  clear: {",
            '11:3: unknown field "cuont" in endpoints; did you mean "count"?',
        ),
    ],
)
def test_keys_of_a_call_that_exclude_each_other_are_refused(old: str, new: str, message: str) -> None:
    assert refused(old, new) == [f"acme.yaml:{message}"]


def test_unknown_and_missing_keys_of_a_block_are_reported_together() -> None:
    assert refused(ADD, "path: /add, idempotency: {heder: X}, partial: {items: $.i}, body") == [
        'acme.yaml:5:49: unknown field "heder" in endpoints.add.idempotency; did you mean "header"?',
        'acme.yaml:5:60: missing field "id" in endpoints.add.partial',
        'acme.yaml:5:60: missing field "failedWhen" in endpoints.add.partial',
    ]


@each_row(
    ("more", "message"),
    [
        ("setup: [{method: GET, path: /x}]\n", '12:9: missing field "name" in setup[0]'),
        ("setup: [{name: '', method: GET, path: /x}]\n", '12:10: setup[0].name must have at least 1 character, not ""'),
        (
            "setup: [{name: a, method: GET, path: /x, existing: {method: GET, path: /x, results: $.r}}]\n",
            '12:42: setup[0].existing: "results" and "match" must be used together',
        ),
        (
            "setup: [{name: a, method: GET, path: /x, existing: {method: GET, path: /x, match: {$.n: a}}}]\n",
            '12:42: setup[0].existing: "results" and "match" must be used together',
        ),
        (
            "wait: {request: {method: GET, path: /s}}\n",
            '12:1: wait: the key "request" also needs one of these keys: "until", "count_at_least"',
        ),
        ("wait: {until: {$.s: done}, request: {path: /s}}\n", '12:28: wait.request: needs "method" and "path"'),
        ("wait: soon\n", '12:1: wait must be a map of keys, not "soon"'),
        ("wait: {scope: run}\n", '12:8: wait.scope must be "id" or "namespace", not "run"'),
    ],
)
def test_setup_and_wait_blocks_with_missing_keys_are_refused(more: str, message: str) -> None:
    assert refused(more=more) == [f"acme.yaml:{message}"]


@each_row(
    ("form", "message"),
    [
        ({"field": "$.id"}, None),
        ({"metadata": "bench_id"}, None),
        ({"content_hash": True}, None),
        ({"tag_prefix": "b:", "field": "$.tags"}, None),
        ({"captured": "m", "field": "$.id"}, None),
        ({"pattern": "id=(.*)", "field": "$.text"}, None),
        (
            {},
            'needs exactly one of "metadata", "content_hash", "field" alone, or "field" with one of '
            '"tag_prefix", "pattern", "captured"',
        ),
        (
            {"metadata": "a", "content_hash": True},
            'needs exactly one of "metadata", "content_hash", "field" alone, or "field" with one of '
            '"tag_prefix", "pattern", "captured"',
        ),
        ({"tag_prefix": "b:"}, '"tag_prefix" needs "field", the path to the ids'),
        ({"captured": "m"}, '"captured" needs "field", the path to the ids'),
        ({"pattern": "id=(.*)"}, '"pattern" needs "field", the path to the ids'),
        (
            {"metadata": "a", "field": "$.id"},
            '"field" can be combined only with "tag_prefix", "pattern" or "captured", not with "metadata"',
        ),
        (
            {"content_hash": True, "field": "$.id"},
            '"field" can be combined only with "tag_prefix", "pattern" or "captured", not with "content_hash"',
        ),
    ],
)
def test_an_id_from_entry_is_exactly_one_form(form: dict[str, object], message: str | None) -> None:
    if message is None:
        assert IdForm.model_validate(form).model_dump(exclude_defaults=True) == form
        return
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        IdForm.model_validate(form)


@pytest.mark.parametrize(("given", "contents"), [("$.a", ("$.a",)), (["$.a", "$.b"], ("$.a", "$.b")), ([], ())])
def test_contentField_is_one_path_or_a_list_in_order(given: object, contents: tuple[str, ...]) -> None:
    assert SearchResponse.model_validate({"results": "$", "contentField": given}).contents == contents


def test_a_response_with_text_needs_no_paths() -> None:
    assert SearchResponse.model_validate({"text": True}).contents == ()


def test_a_body_of_null_counts_as_a_body() -> None:
    assert RequestSection.model_validate({"method": "POST", "path": "/x", "body": None}).has_body
    assert not RequestSection.model_validate({"method": "POST", "path": "/x"}).has_body


def test_until_and_fail_on_accept_a_single_value() -> None:
    wait = WaitBlock.model_validate(
        {"request": {"method": "GET", "path": "/s"}, "until": {"$.s": "done", "$.t": ["a", 1]}, "failOn": {"$.s": None}}
    )
    assert (wait.until, wait.fail_on) == ({"$.s": ["done"], "$.t": ["a", 1]}, {"$.s": [None]})


def test_a_multipart_file_has_a_default_media_type() -> None:
    call = RequestSection.model_validate(
        {"method": "POST", "path": "/x", "multipart": {"a": "${content}", "f": {"filename": "n", "content": "c"}}}
    )
    assert call.multipart == {
        "a": "${content}",
        "f": MultipartSection(filename="n", content="c", type="application/octet-stream"),
    }


def test_verify_clear_has_its_own_timeout() -> None:
    look = VerifyCall.model_validate({"method": "GET", "path": "/x", "empty": "$.n"})
    assert (look.timeout_s, look.ok_status) == (30, ())


def test_calls_of_lists_every_call_with_its_place() -> None:
    more = (
        "setup:\n  - {name: s, method: POST, path: /s, existing: {method: GET, path: /e}}\n"
        "teardown: [{name: t, method: DELETE, path: /t}]\n"
        "wait: {request: {method: GET, path: /w}, until: {$.s: done}, scope: namespace}\n"
    )
    config = load(
        '  add: {method: POST, path: /add, body: {text: "$.content"}}\n',
        "  add: {steps: [{method: POST, path: /one}, {method: POST, path: /two}]}\n"
        "  count: {method: GET, path: /n}\n"
        "  finish: {method: POST, path: /f}\n",
        more,
    )
    assert [(path, call.path) for path, call in calls_of(config)] == [
        (("setup", 0), "/s"),
        (("setup", 0, "existing"), "/e"),
        (("teardown", 0), "/t"),
        (("wait", "request"), "/w"),
        (("endpoints", "add", "steps", 0), "/one"),
        (("endpoints", "add", "steps", 1), "/two"),
        (("endpoints", "search"), "/find"),
        (("endpoints", "finish"), "/f"),
        (("endpoints", "clear"), "/u/${runTag}"),
        (("endpoints", "count"), "/n"),
    ]


def test_calls_of_includes_a_wait_inside_clear() -> None:
    clear = '  clear: {method: DELETE, path: "/u/${runTag}", response: {ids: $.job}, wait: '
    config = load(
        '  clear: {method: DELETE, path: "/u/${runTag}"}',
        clear + "{request: {method: GET, path: /j}, until: {$.s: done}}}",
    )
    assert (("endpoints", "clear", "wait", "request"), "/j") in [(path, call.path) for path, call in calls_of(config)]


def test_an_adapter_config_has_no_calls() -> None:
    config = ProviderConfig.model_validate({"name": "x", "type": "local", "adapter": "builtin:bm25"})
    assert list(calls_of(config)) == []
