"""Contradicting blocks of a provider file: each finding with its exact message, place and hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.builtin_providers import BUILT_IN
from bench.config.file import Source
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
  search: {method: POST, path: /find, body: {q: "$.query", n: "$.k"}, response: {results: "$.r", contentField: "$.t"}}
  clear: {method: DELETE, path: "/u/${runTag}"}
"""


def parse(text: str, folder: Path, name: str = "acme") -> ProviderConfig:
    return load_provider(Source.parse(text, folder / f"{name}.yaml"))


def refused(text: str, folder: Path = Path()) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        parse(text, folder)
    found = caught.value.problems or (caught.value,)
    return [(str(one).rpartition("acme.yaml:")[2], one.hint) for one in found]


def test_an_invalid_provider_name_error_describes_valid_names(tmp_path: Path) -> None:
    expected = (
        '1:1: name: "Own" is not a valid name: expected at most 64 lower case letters, digits, ".", "_" and "-", '
        "with a letter or digit at the beginning"
    )
    assert refused(FILE.replace("name: acme", "name: Own"), tmp_path)[0][0] == expected


def test_an_unknown_durability_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    text = "name: acme\ntype: local\nadapter: some.where:Thing\nlocal: {durability: forever}\n"
    expected = '4:9: local.durability must be "process", "file" or "service", not "forever"'
    hint = (
        'write "process" if the memories exist only in the process, "file" if the memories are in the '
        "folder of the run, "
        '"service" if the memories are elsewhere'
    )
    assert refused(text, tmp_path) == [(expected, hint)]


MCP = FILE.replace("type: hosted\nconnection: {baseUrl: https://acme.test}\n", "type: mcp\n").replace(
    "method: POST, path: /add", "tool: add").replace("method: POST, path: /find", "tool: find").replace(
    'method: DELETE, path: "/u/${runTag}"', "tool: clear")  # fmt: skip
COMMAND, URL = MCP + "mcp: {command: [serve]}\n", MCP + "mcp: {url: http://h}\n"
IN_PROCESS = "name: acme\ntype: local\nadapter: some.where:Thing\n"


@each_row(
    ("text", "found"),
    [
        (IN_PROCESS + FILE.partition("\n")[2].replace("type: hosted\n", ""),
         "5:1: endpoints has no effect: an adapter makes its own calls"),
        (IN_PROCESS + "setup: [{name: a, method: POST, path: /a}]\n",
         "4:1: setup has no effect: an adapter makes its own calls"),
        (FILE + "local: {k1: 1.2}\n",
         "8:9: local.k1 has no effect: these are options of an adapter, but the config has no adapter"),
        (FILE + "mcp: {url: http://h}\n", '8:1: mcp has no effect: the type is "hosted"'),
        (URL + "connection: {base_url: http://h}\n",
         "8:14: connection.base_url has no effect: the server is at mcp.url or mcp.command"),
        (COMMAND + "connection: {headers: {a: b}}\n",
         "8:14: connection.headers has no effect: a server started by mcp.command receives no HTTP headers"),
        (COMMAND + "auth: {type: bearer, envVar: MY_KEY}\n",
         "8:1: auth has no effect: a server started by mcp.command gets its keys from mcp.env"),
    ],
)  # fmt: skip
def test_a_block_without_effect_is_refused_at_its_place(text: str, found: str, tmp_path: Path) -> None:
    assert refused(text, tmp_path) == [(found, "remove it")]


def test_connection_baseUrl_is_refused_for_a_docker_provider(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("services: {}\n", encoding="utf-8")
    docker = "docker: {compose: ./c.yaml, service: s, healthcheck: /up, baseUrl: http://d}\n"
    text = FILE.replace("type: hosted", "type: docker") + docker
    expected = "3:14: connection.baseUrl has no effect: the service answers at docker.baseUrl"
    assert refused(text, tmp_path) == [(expected, "remove it")]


@pytest.mark.parametrize("text", [URL + "connection: {headers: {a: b}}\nauth: {type: bearer, envVar: MY_KEY}\n",
                                  COMMAND + "connection: {timeout: 9}\nauth: {type: none}\n",
                                  FILE + "local: {embedder: m}\n"])  # fmt: skip
def test_blocks_that_have_an_effect_are_accepted(text: str, tmp_path: Path) -> None:
    assert parse(text, tmp_path).name == "acme"


def test_a_password_in_a_database_url_is_refused(tmp_path: Path) -> None:
    text = "name: acme\ntype: local\nadapter: bench.providers.pgvector:Pgvector\nlocal: {database: {url: '%s'}}\n"
    hint = "put the password into an environment variable, and write ${NAME} here"
    for url in ("postgresql://me:hunter22@db/x", "${DB_URL:-postgresql://me:hunter22@db/x}"):
        assert refused(text % url, tmp_path) == [("4:20: local.database.url contains a password", hint)]
    for fine in ("${DB_URL}", "postgresql://me:${PASSWORD}@db/x", "postgresql://me@db/x", "http://127.0.0.1:8000"):
        assert parse(text % fine, tmp_path).local["database"] == {"url": fine}


def test_a_password_in_the_command_of_an_mcp_server_is_refused(tmp_path: Path) -> None:
    text = COMMAND.replace("command: [", "command: [%r, ")
    assert text != COMMAND
    for argument in ("--db=http://me:hunter22@db", "${DB:-postgresql://me:hunter22@db/x}"):
        ((place, hint),) = refused(text % argument, tmp_path)
        assert place.endswith(" mcp.command[0] contains a password") and "${NAME}" in hint
    for fine in ("${DB}", "http://127.0.0.1:8000"):
        assert parse(text % fine, tmp_path).mcp


@each_row(
    ("old", "new", "found"),
    [
        (
            "name: acme",
            "name: other",
            [('1:1: name "other" differs from the file name "acme"', "give the config and its file the same name")],
        ),
        (
            "connection: {baseUrl: https://acme.test}",
            "connection: {}",
            [('2:1: type "hosted" needs "connection.baseUrl"', "add connection.baseUrl, or change the type")],
        ),
        ("type: hosted", "type: local", [('2:1: type "local" needs "adapter"', "add adapter, or change the type")]),
        (
            "type: hosted",
            "type: docker",
            [('2:1: type "docker" needs "docker"', "add docker, or change the type")],
        ),
        (
            'body: {text: "$.content"}}',
            'body: {text: "$.content"}, tool: t}',
            [('5:3: endpoints.add: a call with "tool" must not have "method" or "path"', "correct the value")],
        ),
        (
            '{method: POST, path: /add, body: {text: "$.content"}}',
            '{tool: add, body: {text: "$.content"}}',
            [
                (
                    '5:3: type "hosted" needs "method" and "path" in endpoints.add',
                    'add "method" and "path" to endpoints.add',
                )
            ],
        ),
        (
            "endpoints:\n",
            "vars: {k: '5', item: x}\nendpoints:\n",
            [('4:8: vars.k has the same name as the request variable "k"', "choose another name")],
        ),
        (
            "endpoints:\n",
            "ingest: {batch: {max_items: 2}}\nendpoints:\n",
            [
                (
                    '4:18: "max_items" is larger than 1, but the call "add" uses a field of a single '
                    "memory, not $.items",
                    "write {$each: $.items, $do: ...} or {$column: content}, or max_items: 1",
                )
            ],
        ),
        (
            "endpoints:\n",
            "wait: {scope: id, request: {method: GET, path: '/j/${jobId}'}, until: {$.s: done}}\nendpoints:\n",
            [
                (
                    '4:8: scope "id" needs response.ids, the path to the job ids',
                    "add response: {ids: PATH} to endpoints.add, or write scope: namespace",
                )
            ],
        ),
        (
            '"/u/${runTag}"}',
            "\"/u/${runTag}\", wait: {scope: id, request: {method: GET, path: '/j/${jobId}'}, until: {$.s: done}}}",
            [
                (
                    '7:56: scope "id" needs response.ids, the path to the job ids',
                    "add response: {ids: PATH} to endpoints.clear, or write scope: namespace",
                )
            ],
        ),
        (
            "endpoints:\n",
            "capabilities: {update_memory: true, list_memories: true}\nendpoints:\n",
            [
                (
                    "4:16: capabilities.update_memory is declared, but endpoints.update is missing",
                    "add endpoints.update",
                ),
                ("4:37: capabilities.list_memories is declared, but endpoints.list is missing", "add endpoints.list"),
            ],
        ),
        (
            '  clear: {method: DELETE, path: "/u/${runTag}"}\n',
            "",
            [("4:1: endpoints.clear is missing", "add endpoints.clear, or set capabilities: {clear: false}")],
        ),
        (
            'contentField: "$.t"}',
            'contentField: "$.t", id_from: [{captured: eps, field: $.e}]}',
            [
                (
                    '6:130: "captured" names the unknown map "eps"; known: none',
                    'define the map with "id_map" or "capture"',
                )
            ],
        ),
    ],
)
def test_contradicting_blocks_get_the_exact_finding_and_hint(old: str, new: str, found: list[tuple[str, str]]) -> None:
    assert old in FILE
    assert refused(FILE.replace(old, new, 1)) == found


def test_vars_may_not_have_the_name_of_a_captured_variable() -> None:
    text = FILE.replace("endpoints:\n", "vars: {mine: x}\nendpoints:\n", 1)
    text = text.replace("  clear:", "  count: {method: GET, path: /n, capture: {mine: $.n}}\n  clear:", 1)
    assert refused(text) == [('4:8: vars.mine has the same name as the request variable "mine"', "choose another name")]


@each_row(
    ("where", "more"),
    [
        ("add", "response: {id_map: {name: eps, key: $.k, value: sent}}"),
        ("add", "capture: {eps: $.e}"),
        ("finish", "response: {id_map: {name: eps, key: $.k, value: sent}}"),
        ("wait", "id_map: {name: eps, key: $.k, value: $.v}"),
    ],
)
def test_captured_in_id_from_may_name_a_map_of_any_earlier_call(where: str, more: str) -> None:
    text = FILE.replace('contentField: "$.t"}', 'contentField: "$.t", id_from: [{captured: eps, field: $.e}]}')
    if where == "wait":
        text += f"wait: {{request: {{method: GET, path: /w}}, scope: namespace, until: {{$.s: done}}, {more}}}\n"
    elif where == "finish":
        text = text.replace("  clear:", f"  finish: {{method: POST, path: /f, {more}}}\n  clear:")
    else:
        text = text.replace('body: {text: "$.content"}}', f'body: {{text: "$.content"}}, {more}}}')
    assert parse(text, Path()).endpoints is not None


@pytest.mark.parametrize("giver", ["add", "step", "finish"])
def test_job_ids_may_come_from_add_or_a_step_or_finish(giver: str) -> None:
    ids = "response: {ids: $.job}"
    text = FILE + "wait: {scope: id, request: {method: GET, path: '/j/${jobId}'}, until: {$.s: done}}\n"
    if giver == "add":
        text = text.replace('body: {text: "$.content"}}', f'body: {{text: "$.content"}}, {ids}}}')
    elif giver == "finish":
        text = text.replace("  clear:", f"  finish: {{method: POST, path: /f, {ids}}}\n  clear:")
    else:
        text = text.replace(
            'add: {method: POST, path: /add, body: {text: "$.content"}}',
            "add: {steps: [{method: POST, path: /a}], " + ids + "}",
        )
    assert parse(text, Path()).wait is not None


def test_batches_may_use_items_by_column_and_each() -> None:
    text = FILE.replace('{text: "$.content"}', '{texts: {$column: content}, all: {$each: $.items, $do: "@.id"}}')
    assert parse(text + "ingest: {batch: {max_items: 9}}\n", Path()).ingest.batch.max_items == 9


@pytest.mark.parametrize("name", ["$.id", "${id}"])
def test_a_batch_call_may_not_use_the_id_of_a_single_memory(name: str) -> None:
    text = FILE.replace('"$.content"', f'"{name}"') + "ingest: {batch: {max_items: 9}}\n"
    assert refused(text)[0][0].startswith('8:18: "max_items" is larger than 1')


@each_row(
    ("old", "new", "warnings"),
    [
        ("name: acme", "name: acme", ()),
        (
            ', n: "$.k"',
            "",
            ("acme.yaml:6:3: the search does not send $.k, and capabilities.max_tokens is not declared",),
        ),
        (', n: "$.k"', ', n: "$.limit"', ()),
        ("/find,", '"/find/${k}",', ()),
        (
            "endpoints:\n",
            "ingest: {on_unknown: repeat}\nendpoints:\n",
            (
                'acme.yaml:4:10: on_unknown is "repeat", but the call "add" has neither "idempotency" '
                'nor "idempotent" and is not '
                "an upsert",
            ),
        ),
        (
            "endpoints:\n",
            "capabilities: {supportsChunks: true}\nendpoints:\n",
            ("acme.yaml:4:16: supportsChunks is declared, but endpoints.search.response.chunksField is missing",),
        ),
        (
            "endpoints:\n",
            "capabilities: {supportsBatch: true}\nendpoints:\n",
            ("acme.yaml:4:16: supportsBatch is true, but ingest.batch.max_items is 1",),
        ),
        ("endpoints:\n", "capabilities: {supportsBatch: false}\nendpoints:\n", ()),
    ],
)
def test_suspicious_settings_are_listed_in_warnings(old: str, new: str, warnings: tuple[str, ...]) -> None:
    assert old in FILE
    assert parse(FILE.replace(old, new, 1), Path()).warnings == warnings


def test_a_search_limited_by_max_tokens_needs_no_k() -> None:
    text = FILE.replace(', n: "$.k"', "") + "capabilities: {max_tokens: 2000}\n"
    assert parse(text, Path()).warnings == ()


@each_row(
    ("old", "new"),
    [
        ("path: /add", "path: /add, idempotency: {}"),
        ("path: /add", "path: /add, idempotent: true"),
        ("method: POST, path: /add", "method: PUT, path: /add"),
        ("path: /add", "path: /points/upsert"),
    ],
)
def test_on_unknown_repeat_with_a_repeatable_add_has_no_warning(old: str, new: str) -> None:
    text = FILE.replace(old, new, 1) + "ingest: {on_unknown: repeat}\n"
    assert parse(text, Path()).warnings == ()


# ------------------------------------------------------------------- adapters


@each_row("name", BUILT_IN)
def test_each_built_in_adapter_is_accepted(tmp_path: Path, name: str) -> None:
    assert parse(f"name: acme\ntype: local\nadapter: builtin:{name}\n", tmp_path).adapter == f"builtin:{name}"


@each_row(
    ("adapter", "message", "hint"),
    [
        (
            "./own.ts:Own",
            'adapter "./own.ts:Own" is not a Python file',
            "write the adapter in Python (./file.py:Class), or serve the memory system over HTTP or MCP",
        ),
        (
            "own.js",
            'adapter "own.js" is not a Python file',
            "write the adapter in Python (./file.py:Class), or serve the memory system over HTTP or MCP",
        ),
        ("builtin:bm52", 'no built-in provider "bm52"; did you mean "bm25"?', f"known: {', '.join(BUILT_IN)}"),
        ("builtin", 'no built-in provider ""', f"known: {', '.join(BUILT_IN)}"),
        (
            "package.module",
            'adapter "package.module" does not contain the name of a class',
            "write ./file.py:Class, package.module:Class or builtin:NAME",
        ),
        (
            "./own.py:1x",
            'adapter "./own.py:1x" does not contain the name of a class',
            "write ./file.py:Class, package.module:Class or builtin:NAME",
        ),
        ("./gone.py:Own", "no such adapter file: ./gone.py", "correct the path, which is relative to the config"),
        ("./own.py:Onw", './own.py has no class Onw; did you mean "Own"?', "classes there: Other, Own"),
        ("./empty.py:Own", "./empty.py has no class Own", "classes there: none"),
    ],
)
def test_an_unusable_adapter_is_refused_with_the_reason(tmp_path: Path, adapter: str, message: str, hint: str) -> None:
    (tmp_path / "own.py").write_text("class Own: ...\nclass Other: ...\ndef f(): ...\n", encoding="utf-8")
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    assert refused(f"name: acme\ntype: local\nadapter: {adapter}\n", tmp_path) == [(f"3:1: {message}", hint)]


def test_an_adapter_file_is_hashed_but_not_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise RuntimeError\nclass Own: ...\n", encoding="utf-8")
    first = parse("name: acme\ntype: local\nadapter: ./own.py:Own\n", tmp_path)
    assert (first.adapter, len(first.sha256)) == ("./own.py:Own", 64)
    (tmp_path / "own.py").write_text("class Own: x = 1\n", encoding="utf-8")
    assert parse("name: acme\ntype: local\nadapter: ./own.py:Own\n", tmp_path).sha256 != first.sha256


@pytest.mark.parametrize("content", [b"class Own(:\n", b"\xff\xfe", b"\x00"])
def test_an_adapter_file_that_is_not_Python_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.py").write_bytes(content)
    ((message, hint),) = refused("name: acme\ntype: local\nadapter: ./own.py:Own\n", tmp_path)
    assert message.startswith("3:1: adapter file ./own.py is not Python: ")
    assert hint == "correct the file"


def test_an_adapter_module_is_not_imported_when_the_config_is_loaded(tmp_path: Path) -> None:
    text = "name: acme\ntype: local\nadapter: no.such.module:Class\n"
    assert parse(text, tmp_path).adapter == "no.such.module:Class"
