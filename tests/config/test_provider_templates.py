"""Templates and answer paths of a provider file: unknown names are reported before any call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.file import load_provider
from bench.config.provider.sections import (
    ADD_VARIABLES,
    CLEAR_VARIABLES,
    COMMON_VARIABLES,
    DELETE_VARIABLES,
    ITEM_VARIABLES,
    LIST_VARIABLES,
    SEARCH_VARIABLES,
    SETUP_VARIABLES,
    WAIT_VARIABLES,
)
from bench.config.provider.templates import answer_path_problems, template_problems
from bench.errors import ConfigError
from tests.rows import each_row

FILE = """\
vars: {db: /db}
setup:
  - {name: one, method: POST, path: /a, capture: {first: $.id}}
  - {name: two, method: POST, path: /b, capture: {second: $.id}}
endpoints:
  add: {method: POST, path: /add}
  search: {method: POST, path: /find}
  delete: {method: POST, path: /del}
  update: {method: POST, path: /up}
  list: {method: GET, path: /list}
  count: {method: GET, path: /count}
  clear: {method: DELETE, path: /clear}
wait: {request: {method: GET, path: /wait}}
teardown: [{name: t, method: DELETE, path: /t}]
"""
OWN = {
    "/a": SETUP_VARIABLES,
    "/b": SETUP_VARIABLES | {"first"},
    "/add": ADD_VARIABLES | ITEM_VARIABLES | {"first", "second"},
    "/find": SEARCH_VARIABLES | {"first", "second"},
    "/del": DELETE_VARIABLES | {"first", "second"},
    "/up": ADD_VARIABLES | ITEM_VARIABLES | {"first", "second"},
    "/list": LIST_VARIABLES | {"first", "second"},
    "/count": {"first", "second"},
    "/clear": CLEAR_VARIABLES | {"first", "second"},
    "/wait": WAIT_VARIABLES | {"first", "second"},
    "/t": CLEAR_VARIABLES | {"first", "second"},
}
EVERY = (
    COMMON_VARIABLES
    | SETUP_VARIABLES
    | ADD_VARIABLES
    | ITEM_VARIABLES
    | SEARCH_VARIABLES
    | WAIT_VARIABLES
    | CLEAR_VARIABLES
    | DELETE_VARIABLES
    | LIST_VARIABLES
    | {"first", "second", "db", "each"}
)


def problems(text: str) -> list[str]:
    source = Source.parse(text, Path("x.yaml"))
    return [str(one) for one in (*template_problems(source), *answer_path_problems(source))]


@each_row("path", OWN)
def test_each_call_accepts_only_its_own_variables(path: str) -> None:
    known = COMMON_VARIABLES | OWN[path] | {"db"}
    refused = set()
    text = json.dumps(Source.parse(FILE, Path("x.yaml")).tree)
    for name in EVERY:
        tree = json.loads(text.replace(f'"{path}"', f'"{path}/${{{name}}}"'))
        found = [str(one) for one in template_problems(Source(path=Path("x.yaml"), tree=tree))]
        if found:
            assert len(found) == 1 and f'unknown variable "{name}" in ' in found[0]
            refused.add(name)
    assert refused == EVERY - known


def test_a_file_without_templates_has_no_problem() -> None:
    assert problems(FILE) == problems("{}") == problems("a: 1\n") == []


def test_sessionId_is_known_to_every_call_under_strategy_sessionId() -> None:
    text = FILE.replace("path: /count", 'path: "/count/${sessionId}"')
    assert problems(text) == [
        'x.yaml:11:24: unknown variable "sessionId" in endpoints.count.path; did you mean "second"?'
    ]
    assert problems(text + "scoping: {strategy: sessionId}\n") == []


@each_row(
    ("old", "new", "message"),
    [
        (
            "path: /add}",
            "path: /add, query: {q: '${runTga}'}}",
            '6:43: unknown variable "runTga" in endpoints.add.query.q; did you mean "runTag"?',
        ),
        (
            "path: /add}",
            "path: /add, headers: {H: '${runTga}'}}",
            '6:45: unknown variable "runTga" in endpoints.add.headers.H; did you mean "runTag"?',
        ),
        (
            "path: /add}",
            "path: /add, multipart: {f: {filename: '${idd}', content: c}}}",
            '6:51: unknown variable "idd" in endpoints.add.multipart.f; did you mean "id"?',
        ),
        (
            "path: /add}",
            "path: /add, body: {a: [1, {b: $.contnt}]}}",
            '6:50: unknown variable "contnt" in endpoints.add.body; did you mean "content"?',
        ),
        (
            "path: /add}",
            "path: /add, for_each: $.itmes}",
            '6:35: unknown variable "itmes" in endpoints.add.for_each; did you mean "items"?',
        ),
        (
            "path: /count",
            "path: '/count/${zzz}'",
            '11:24: unknown variable "zzz" in endpoints.count.path; no capture defines it',
        ),
        (
            "path: /add}",
            "path: /add, body: {$each: 5, $do: x}}",
            "6:42: $each needs a JSONPath to a list, such as $.items",
        ),
        ("path: /add}", "path: /add, body: {$each: $.items}}", "6:42: $each cannot be used together"),
        (
            "path: /add}",
            "path: /add, body: {$each: $.items, $do: x, y: 1}}",
            "6:42: $do, $each, y cannot be used together",
        ),
        (
            "path: /add}",
            "path: /add, body: {a: {$jsno: 1}}}",
            '6:46: unknown operator "$jsno"; known: $each, $do, $column, $omit_if_null, $literal, $json, $lines',
        ),
        ("path: /add}", "path: /add, body: {a: '@.id'}}", '6:42: "@.id" can be used only inside $each'),
        ("path: /add}", "path: /add, body: {a: '$.items[0'}}", None),
        (
            "path: /add}",
            "path: /add, body: {$each: $.items, $do: {$each: '@.messages', $do: '@.rol'}}}",
            '6:85: unknown field "rol" of the element; did you mean "role"?',
        ),
    ],
)
def test_an_invalid_template_is_reported_at_its_line(old: str, new: str, message: str | None) -> None:
    assert old in FILE
    found = problems(FILE.replace(old, new, 1))
    if message is None:
        assert len(found) == 1 and found[0].startswith('x.yaml:6:42: "$.items[0" is not a valid JSONPath: ')
    else:
        assert found == [f"x.yaml:{message}"]


def test_the_hint_lists_the_known_variables_of_the_call() -> None:
    source = Source.parse(FILE.replace("path: /count", "path: '/count/${zzz}'"), Path("x.yaml"))
    (problem,) = template_problems(source)
    assert problem.hint == f"known variables: {', '.join(sorted(COMMON_VARIABLES | {'db', 'first', 'second'}))}"


def test_the_variable_each_is_known_only_in_a_call_with_for_each() -> None:
    loop = FILE.replace("path: /t}", 'path: "/t/${each}", for_each: $.ids}')
    assert problems(loop) == []
    assert problems(FILE.replace("path: /t}", 'path: "/t/${each}"}')) == [
        'x.yaml:14:38: unknown variable "each" in teardown.path; no capture defines it'
    ]


def test_a_step_knows_the_captures_of_earlier_steps() -> None:
    steps = "add: {steps: [{method: POST, path: '/s/${job}', capture: {job: $.id}}, {method: POST, path: '/s/${job}'}]}"
    found = problems(FILE.replace("add: {method: POST, path: /add}", steps))
    assert found == ['x.yaml:6:32: unknown variable "job" in endpoints.add.steps.path; no capture defines it']


def test_captures_of_add_are_known_to_every_call_except_setup() -> None:
    text = FILE.replace(
        "path: /add}", "path: /add, response: {id_map: {name: eps, key: $.k, value: sent}}, capture: {job: $.j}}"
    )
    for path in ("/find", "/wait", "/t", "/clear"):
        assert problems(text.replace(f"path: {path}", f'path: "{path}/${{eps}}${{job}}"')) == []
    assert len(problems(text.replace("path: /a,", 'path: "/a/${job}",'))) == 1


def test_captures_of_wait_are_known_to_search() -> None:
    text = FILE.replace("wait: {", "wait: {id_map: {name: nodes, key: $.k, value: $.v}, ").replace(
        "path: /find", 'path: "/find/${nodes}"'
    )
    assert problems(text) == []


def test_existing_knows_the_same_variables_as_its_setup_call() -> None:
    text = FILE.replace(
        "path: /b,", "path: /b, existing: {method: GET, path: '/b/${first}', results: $.r, match: {$.n: $.runTag}},"
    )
    assert problems(text) == []
    assert problems(text.replace("${first}", "${second}")) == [
        'x.yaml:4:65: unknown variable "second" in setup.existing.path; no capture defines it'
    ]


def test_environment_variables_are_not_checked_as_template_variables() -> None:
    assert problems(FILE.replace("path: /add", 'path: "/${HOST:-x}/${PART}/$${free}"')) == []


# ----------------------------------------------------------------- answer paths


@each_row(
    ("old", "new", "message"),
    [
        (
            "path: /find}",
            "path: /find, response: {results: '$.a[?@.b]'}}",
            '7:50: "$.a[?@.b]" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
        ),
        ("path: /find}", "path: /find, response: {results: hits}}", '7:50: "hits" is not a valid JSONPath'),
        (
            "path: /find}",
            "path: /find, response: {contentField: [$.a, $..b]}}",
            '7:70: "$..b" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
        ),
        ("path: /find}", "path: /find, response: {zip: {a: ids}}}", '7:56: "ids" is not a valid JSONPath'),
        (
            "path: /find}",
            "path: /find, response: {flatten: {path: x, keep: {y: z}}}}",
            '7:60: "x" is not a valid JSONPath',
        ),
        ("path: /find}", "path: /find, response: {score: {field: s}}}", '7:58: "s" is not a valid JSONPath'),
        ("path: /find}", "path: /find, response: {id_from: [{field: i}]}}", '7:61: "i" is not a valid JSONPath'),
        ("path: /find}", "path: /find, response: {when: w}}", '7:50: "w" is not a valid JSONPath'),
        (
            "path: /add}",
            "path: /add, response: {id_map: {name: n, key: $.k, value: snet}}}",
            '6:74: "snet" is not a valid JSONPath',
        ),
        ("path: /count}", "path: /count, value: n}", '11:38: "n" is not a valid JSONPath'),
        ("path: /find}", "path: /find, page: {cursor: c, param: p}}", '7:46: "c" is not a valid JSONPath'),
        ("path: /add}", "path: /add, response: {ids: j}}", '6:46: "j" is not a valid JSONPath'),
        (
            "path: /add}",
            "path: /add, partial: {items: i, id: $.id, failed_when: {ok: [false]}}}",
            '6:45: "i" is not a valid JSONPath',
        ),
        ("path: /add}", "path: /add, capture: {x: [y]}}", '6:49: "y" is not a valid JSONPath'),
        ("path: /wait}", "path: /wait}, until: {status: [done]}", '13:53: "status" is not a valid JSONPath'),
        ("path: /wait}", "path: /wait}, count_at_least: n", '13:45: "n" is not a valid JSONPath'),
        ("path: /wait}", "path: /wait}, fail_on: {s: [x]}", '13:55: "s" is not a valid JSONPath'),
    ],
)
def test_an_invalid_answer_path_is_reported_at_its_line(old: str, new: str, message: str) -> None:
    assert old in FILE
    found = problems(FILE.replace(old, new, 1))
    assert f"x.yaml:{message}" in found


def test_id_map_key_words_and_messages_are_not_checked_as_paths() -> None:
    text = FILE.replace("path: /add}", "path: /add, response: {id_map: {name: n, key: uuid, value: sent}}}")
    text += "errors: {error_when: [{path: $.e, equals: 1, message: went wrong}]}\n"
    assert problems(text) == []


def test_request_bodies_and_queries_are_not_checked_as_answer_paths() -> None:
    assert (
        problems(
            FILE.replace("path: /find}", "path: /find, body: {results: all, when: now, value: 5}, query: {ids: x}}")
        )
        == []
    )


def test_error_when_paths_are_checked_as_answer_paths() -> None:
    assert problems(FILE + "errors: {error_when: [{path: e, equals: 1, message: '$..m'}]}\n") == [
        'x.yaml:15:24: "e" is not a valid JSONPath',
        'x.yaml:15:44: "$..m" uses an unsupported part of JSONPath: only names, indexes, [*] and unions of names work',
    ]


@each_row(
    "tree",
    [
        "endpoints: 5\n",
        "endpoints: {add: 5}\n",
        "setup: x\n",
        "wait: [1]\n",
        "endpoints: {add: {steps: 5, body: null}}\n",
        "endpoints: {add: {capture: 5, headers: x, response: [1]}}\n",
    ],
)
def test_a_malformed_block_has_no_template_problems_and_fails_validation(tree: str) -> None:
    assert problems(tree) == []
    with pytest.raises(ConfigError):
        load_provider(Source.parse(tree, Path("x.yaml")))
