"""Blocks of a provider file other than its calls: defaults and refused values."""

from __future__ import annotations

from dataclasses import fields
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.file import ConfigModel, Source
from bench.config.provider.config import Mcp, ProviderConfig
from bench.config.provider.file import load_provider
from bench.config.provider.sections import Auth, CapabilitiesConfig, ClientEmbeddings, Scoping, looks_like_key
from bench.config.traffic import ErrorRule
from bench.errors import ConfigError
from bench.providers import Capabilities
from tests.rows import each_row

HEAD = "name: acme\ntype: hosted\nconnection: {baseUrl: https://acme.test}\n"
CALLS = """\
endpoints:
  add: {method: POST, path: /add, body: {text: "$.content"}}
  search: {method: POST, path: /find, body: {q: "$.query", n: "$.k"}, response: {results: "$.r", contentField: "$.t"}}
  clear: {method: DELETE, path: "/u/${runTag}"}
"""


def load(more: str = "", head: str = HEAD, calls: str = CALLS) -> ProviderConfig:
    return load_provider(Source.parse(head + calls + more, Path("acme.yaml")))


def refused(more: str = "", head: str = HEAD, calls: str = CALLS) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(more, head, calls)
    return [str(one) for one in caught.value.problems or (caught.value,)]


@each_row(
    ("path", "default"),
    [
        ("display_name", None),
        ("description", ""),
        ("aliases", ()),
        ("verified", None),
        ("determinism", "unknown"),
        ("connection.timeout", 30_000),
        ("connection.connect_timeout", 10_000),
        ("connection.max_response_bytes", 8_388_608),
        ("connection.headers", {}),
        ("auth", ()),
        ("scoping.strategy", "custom"),
        ("scoping.run_id_format", "bench-${benchmarkId}-${runId}"),
        ("scoping.sanitize.allowed", "A-Za-z0-9._-"),
        ("scoping.sanitize.replace", "-"),
        ("scoping.sanitize.max_length", 64),
        ("scoping.sanitize.lowercase", False),
        ("vars", {}),
        ("setup", ()),
        ("teardown", ()),
        ("ingest.unit", "benchmark"),
        ("ingest.text", None),
        ("ingest.timestamp", "iso"),
        ("ingest.batch.max_items", 1),
        ("ingest.batch.max_bytes", None),
        ("ingest.split", None),
        ("ingest.order", "serial"),
        ("ingest.on_unknown", "reset"),
        ("wait", None),
        ("client_embeddings", None),
        ("errors.error_when", ()),
        ("errors.status", {}),
        ("limits.add.rps", None),
        ("limits.namespace_serial", False),
        ("limits.feedback", None),
        ("rate_limit.add_delay_ms", 0),
        ("rate_limit.search_delay_ms", 0),
        ("rate_limit.batch_delay_ms", 0),
        ("rate_limit.max_retries", 3),
        ("rate_limit.retry_delay_ms", 2000),
        ("capabilities.supports_chunks", False),
        ("capabilities.clear", True),
        ("capabilities.metadata_values", "flat"),
        ("capabilities.max_k", None),
        ("prices.add", None),
        ("docker", None),
        ("mcp", None),
        ("adapter", None),
        ("local", {}),
        ("endpoints.add.response.ids", None),
        ("endpoints.add.idempotent", None),
        ("endpoints.add.treat_as_ok", ()),
        ("endpoints.search.page", None),
        ("endpoints.search.response.missing_is_empty", False),
        ("endpoints.search.response.content_join", "\n"),
        ("endpoints.search.response.score.kind", "similarity"),
        ("endpoints.search.response.score.transform", "none"),
        ("endpoints.search.response.score.order", "as_returned"),
        ("endpoints.search.response.id_from", None),
        ("endpoints.finish", None),
        ("endpoints.verify_clear", None),
    ],
)
def test_a_key_that_is_left_out_has_its_default(path: str, default: object) -> None:
    found: object = load()
    for part in path.split("."):
        found = getattr(found, part)
    assert found == default


def test_wait_and_client_embeddings_have_their_defaults() -> None:
    config = load("wait: sentinel\nclient_embeddings: {model: openai/e}\n")
    wait = config.wait
    assert wait is not None
    assert (wait.request, wait.interval_ms, wait.max_interval_ms, wait.timeout_s, wait.settle_ms) == (
        None,
        500,
        5000,
        600,
        0,
    )
    assert config.client_embeddings == ClientEmbeddings(
        model="openai/e", dimensions=None, batch=64, normalize=False, query_prefix="", document_prefix=""
    )


# --------------------------------------------------------------- capabilities


def test_CapabilitiesConfig_and_Capabilities_have_the_same_fields_and_defaults() -> None:
    """There are two declarations, because a provider class must not need the library of the configs."""
    operations = {"delete_memory", "update_memory", "list_memories"}
    assert set(CapabilitiesConfig.model_fields) - operations == set(Capabilities.config_fields())
    message, config = Capabilities(), CapabilitiesConfig()
    assert {name: getattr(message, name) for name in Capabilities.config_fields()} == {
        name: getattr(config, name) for name in Capabilities.config_fields()
    }
    assert [one.name for one in fields(Capabilities)] == ["operations", *Capabilities.config_fields()]


def test_Capabilities_are_shown_with_the_keys_of_the_config() -> None:
    shown = Capabilities(operations=frozenset({"b", "a"}), supports_rerank=True, max_k=5).shown()
    assert shown == {
        "operations": ["a", "b"],
        "supportsChunks": False,
        "supportsBatch": False,
        "supportsMetadata": False,
        "supportsRerank": True,
        "ids": True,
        "timestamps": True,
        "scores": True,
        "clear": True,
        "metadata_values": "flat",
        "max_k": 5,
        "max_query_chars": None,
        "max_tokens": None,
    }


@pytest.mark.parametrize(
    ("message", "declared"),
    [
        ({}, set()),
        ({"delete_memory": True, "update_memory": False}, {"delete_memory"}),
        ({"list_memories": True, "updateMemory": True}, {"list_memories", "update_memory"}),
    ],
)
def test_declared_returns_the_operations_that_are_set_to_true(message: dict[str, object], declared: set[str]) -> None:
    assert CapabilitiesConfig.model_validate(message).declared() == declared


# ----------------------------------------------------------------------- auth


@each_row(
    ("auth", "message"),
    [
        ("{type: none}", None),
        ("{type: bearer, envVar: KEY}", None),
        ("{type: basic, envVar: KEY, user: me}", None),
        ("{type: query, envVar: KEY, param: key}", None),
        (
            "{type: bearer}",
            '8:1: auth: auth of type "bearer" needs "envVar", the name of the variable with the API key',
        ),
        (
            "{type: query, envVar: KEY}",
            '8:1: auth: auth of type "query" needs "param", the name of the query parameter',
        ),
        ("{type: basic, envVar: KEY}", '8:1: auth: auth of type "basic" needs "user"'),
        (
            "{type: bearer, envVar: key}",
            "8:22: auth.envVar: must be the NAME of an environment variable, in upper case, and not the API key itself",
        ),
        (
            "{type: baerer, envVar: KEY}",
            '8:8: auth.type must be "bearer" or "token" or "apikey" or "basic" or "query" or "none", '
            'not "baerer"; did you mean "bearer"?',
        ),
    ],
)
def test_auth_needs_the_keys_of_its_type(auth: str, message: str | None) -> None:
    if message is None:
        assert len(load(f"auth: {auth}\n").auth) == 1
    else:
        found = refused(f"auth: {auth}\n")
        assert found == [f"acme.yaml:{message}"]


def test_auth_may_be_a_list() -> None:
    config = load("auth: [{type: bearer, envVar: A}, {type: apikey, header: X-Org, envVar: B, optional: true}]\n")
    assert config.auth == (
        Auth(type="bearer", env_var="A"),
        Auth(type="apikey", header="X-Org", env_var="B", optional=True),
    )


@each_row(
    ("text", "is_key"),
    [
        ("sk-abcdefghijklmnopqrstuvwx", True),
        ("a1" * 16, True),
        ("application/json", False),
        ("${KEY_OF_SOME_SERVICE_THAT_IS_LONG_1}", False),
        ("Bearer ${TOKEN}", False),
        ("a" * 40, False),
        ("1" * 40, False),
        ("text with " + "a1" * 16 + " inside", True),
        ("", False),
    ],
)
def test_looks_like_key_recognizes_API_keys(text: str, is_key: bool) -> None:
    assert looks_like_key(text) is is_key


@given(st.text(st.characters(exclude_categories=["Nd", "Nl", "No"]), max_size=60))
def test_text_without_digits_does_not_look_like_a_key(text: str) -> None:
    if "-" not in text and "_" not in text:
        assert not looks_like_key(text)


# -------------------------------------------------------------------- refused


@each_row(
    ("more", "message"),
    [
        (
            "verified: {level: live, date: 2026-01-01, upstream: ''}\n",
            '8:43: verified.upstream must have at least 1 character, not ""',
        ),
        ("verified: {date: 2026-01-01}\n", '8:1: missing field "level" in verified'),
        (
            "scoping: {runIdFormat: '${runid}'}\n",
            '8:11: scoping.runIdFormat: unknown variable "runid"; known: benchmarkId, runId, corpusId, attempt',
        ),
        (
            "scoping: {sanitize: {allowed: 'z-a'}}\n",
            "8:22: scoping.sanitize.allowed: is not a character class: bad character range z-a at position 1",
        ),
        (
            "scoping: {sanitize: {max_length: 23}}\n",
            "8:22: scoping.sanitize.max_length must be greater than or equal to 24, not 23",
        ),
        (
            "ingest: {split: {max_chars: 10, overlap: 10}}\n",
            '8:10: ingest.split: "overlap" must be smaller than "max_chars"',
        ),
        (
            "ingest: {text: words}\n",
            '8:10: ingest.text: must be "plain", "speaker", "dated", or a template with ${speaker}, ${when} or '
            "${content}",
        ),
        (
            "ingest: {text: '${who}: ${content}'}\n",
            '8:10: ingest.text: unknown name "who"; known: speaker, when, content',
        ),
        (
            "ingest: {unit: chunk}\n",
            '8:1: ingest: unit "chunk" also needs the key "chunk", for example chunk: {size: 1000}',
        ),
        ("ingest: {batch: {max_items: 0}}\n", "8:18: ingest.batch.max_items must be greater than 0, not 0"),
        ("client_embeddings: {batch: 5}\n", '8:1: missing field "model" in client_embeddings'),
        ("limits: {add: {rps: 0}}\n", "8:16: limits.add.rps must be greater than 0, not 0"),
        ("limits: {feedback: {remaining: X}}\n", '8:10: missing field "reset" in limits.feedback'),
        ("errors: {status: {teapot: stop}}\n", '8:19: errors.status.teapot must be a whole number, not "teapot"'),
        (
            "errors: {status: {418: dance}}\n",
            '8:19: errors.status.418 must be "retry" or "fail" or "stop", not "dance"',
        ),
        (
            "errors: {error_when: [{path: $.e, equals: 1, in: [2]}]}\n",
            '8:23: errors.error_when[0]: needs exactly one of "equals", "not_equals", "in", "not_in", '
            '"exists", "non_empty"',
        ),
        ("prices: {add: -1}\n", "8:10: prices.add must be greater than or equal to 0, not -1"),
        ("capabilities: {max_k: 0}\n", "8:16: capabilities.max_k must be greater than 0, not 0"),
        (
            "capabilities: {metadata_values: some}\n",
            '8:16: capabilities.metadata_values must be "any" or "flat" or "strings" or "none", not "some"',
        ),
        (
            "capabilities: {supportsChunk: true}\n",
            '8:16: unknown field "supportsChunk" in capabilities; did you mean "supportsChunks"?',
        ),
        ("wait: {interval_ms: 0}\n", "8:8: wait.interval_ms must be greater than 0, not 0"),
        ("vars: {a: 5}\n", "8:8: vars.a must be text, not 5"),
        (
            "docker: {compose: ./no.yaml, service: s, healthcheck: /, baseUrl: http://h}\n",
            "8:10: no such compose file: ./no.yaml",
        ),
    ],
)
def test_an_invalid_section_gets_the_exact_finding_and_place(more: str, message: str) -> None:
    assert refused(more) == [f"acme.yaml:{message}"]


@each_row("text", ["plain", "speaker", "dated", "${content}", "[${when}] ${speaker}: ${content}", "$${x} ${content}"])
def test_ingest_text_accepts_a_form_or_a_template(text: str) -> None:
    assert load(f"ingest: {{text: '{text}'}}\n").ingest.text == text


@each_row("text", ["${runId}", "$${anything}-${attempt}", "fixed", ""])
def test_runIdFormat_accepts_known_variables_and_escapes(text: str) -> None:
    assert Scoping(run_id_format=text).run_id_format == text


@each_row(
    ("url", "message"),
    [
        ("https://acme.test", None),
        ("http://127.0.0.1:80/base", None),
        ("${URL}", None),
        ("${URL:-https://x.test}", None),
        ("${HOST:-https://x.test}/v1", None),
        ("acme.test", "must start with http:// or https://"),
        ("${URL:-acme.test}", "must start with http:// or https://"),
        ("ws://acme.test", "must start with http:// or https://"),
        ("https://me:pw@acme.test", 'contains credentials: use "auth"'),
        ("${URL:-https://me@acme.test}", 'contains credentials: use "auth"'),
        ("https://acme.test/a@b", None),
    ],
)
def test_baseUrl_must_be_HTTP_without_credentials(url: str, message: str | None) -> None:
    head = HEAD.replace("https://acme.test", f'"{url}"')
    if message is None:
        assert load(head=head).base_url == url
    else:
        assert refused(head=head) == [f"acme.yaml:3:14: connection.baseUrl: {message}"]


@each_row(
    "rule", [{"equals": None}, {"equals": 0}, {"in": []}, {"exists": False}, {"non_empty": False}, {"notIn": [1]}]
)
def test_a_falsy_value_in_an_error_rule_counts_as_its_one_test(rule: dict[str, object]) -> None:
    assert len(ErrorRule.model_validate({"path": "$.e", **rule}).tests) == 1


def test_mcp_needs_either_command_or_url() -> None:
    assert Mcp(command=("npx", "x")).url is None
    for both in ({}, {"command": ["x"], "url": "http://h"}):
        with pytest.raises(ValueError, match='"mcp" needs either "command" or "url"'):
            Mcp.model_validate(both)


def test_local_embedding_of_older_files_sets_client_embeddings() -> None:
    local = "name: acme\ntype: local\nadapter: builtin:vector\n"
    local += "local: {embedding: {provider: openai, model: e, dimensions: 3}}\n"
    config = load_provider(Source.parse(local, Path("acme.yaml")))
    assert config.client_embeddings == ClientEmbeddings(model="openai/e", dimensions=3)
    bare = local.replace("provider: openai, ", "").replace(", dimensions: 3", "")
    assert load_provider(Source.parse(bare, Path("acme.yaml"))).client_embeddings == ClientEmbeddings(model="e")
    both = local + "client_embeddings: {model: mine/f}\n"
    assert load_provider(Source.parse(both, Path("acme.yaml"))).client_embeddings == ClientEmbeddings(model="mine/f")
    none = local.replace("model: e", "size: 3")
    assert load_provider(Source.parse(none, Path("acme.yaml"))).client_embeddings is None


# ------------------------------------------------------------------- identity

FREE = [
    "displayName: X\n",
    "description: x\n",
    "docs: http://x\n",
    "tags: [x]\n",
    "aliases: [x]\n",
    "verified: {level: live, date: 2026-01-01}\n",
    "limits: {search: {rps: 1}}\n",
    "rateLimit: {maxRetries: 0}\n",
    "prices: {add: 1}\n",
]
BOUND = [
    "determinism: drifts\n",
    "ingest: {order: parallel}\n",
    "ingest: {text: dated}\n",
    "scoping: {strategy: userId}\n",
    "vars: {a: b}\n",
    "wait: sentinel\n",
    "client_embeddings: {model: e}\n",
    "errors: {status: {409: fail}}\n",
    "capabilities: {max_k: 5}\n",
    "auth: {type: bearer, envVar: KEY}\n",
    "local: {embedder: m}\n",
]


@each_row("more", FREE)
def test_keys_that_cannot_change_a_result_do_not_change_sha256(more: str) -> None:
    assert load(more).sha256 == load().sha256


@each_row("more", BOUND)
def test_keys_that_can_change_a_result_change_sha256(more: str) -> None:
    assert load(more).sha256 != load().sha256


@pytest.mark.parametrize("key", ["timeout: 5", "connectTimeout: 5"])
def test_timeouts_do_not_change_sha256(key: str) -> None:
    assert load(head=HEAD.replace("baseUrl", f"{key}, baseUrl")).sha256 == load().sha256


def test_baseUrl_changes_sha256_but_the_value_of_its_variable_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    head = HEAD.replace("https://acme.test", '"${ACME_URL:-https://acme.test}"')
    first = load(head=head).sha256
    monkeypatch.setenv("ACME_URL", "https://other.test")
    assert load(head=head).sha256 == first != load().sha256


def test_a_loaded_config_has_a_path_and_a_built_in_has_none() -> None:
    config = load()
    assert (config.path, config.folder, config.place("name")) == (Path("acme.yaml"), Path(), "acme.yaml:1:1")
    assert config.places is not None and ("name",) in config.places
    built_in = ProviderConfig.model_validate({"name": "x", "type": "local", "adapter": "builtin:bm25"})
    assert (built_in.path, built_in.folder, built_in.place("name"), built_in.places) == (None, Path(), None, None)
    assert (built_in.shown_name, load("displayName: Acme\n").shown_name) == ("x", "Acme")


def test_base_url_of_a_docker_provider_is_docker_baseUrl(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("services: {}\n", encoding="utf-8")
    docker = "docker: {compose: ./c.yaml, service: s, healthcheck: /up, baseUrl: http://d}\n"
    text = "name: acme\ntype: docker\n" + CALLS + docker
    config = load_provider(Source.parse(text, tmp_path / "acme.yaml"))
    assert config.base_url == "http://d"
    assert config.docker is not None and config.docker.health_timeout_s == 120
    assert load().base_url == "https://acme.test"
    beside = HEAD.replace("type: hosted", "type: local\nadapter: builtin:bm25") + docker
    assert load_provider(Source.parse(beside, tmp_path / "acme.yaml")).base_url == "https://acme.test"


def test_verified_date_is_a_day() -> None:
    config = load("verified: {level: recorded, date: 2026-02-28}\n")
    assert config.verified is not None and config.verified.date == date(2026, 2, 28)
    assert config.verified.upstream == "bench"


def test_every_config_model_refuses_unknown_fields_and_is_frozen() -> None:
    def models(kind: type[ConfigModel]) -> set[type[ConfigModel]]:
        return {kind}.union(*(models(one) for one in kind.__subclasses__()))

    assert all(
        one.model_config.get("extra") == "forbid" and one.model_config.get("frozen") for one in models(ConfigModel)
    )
