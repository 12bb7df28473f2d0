"""Provider files: valid files, and errors with their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.config.file import Source
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.errors import ConfigError
from tests.rows import each_row

GOOD = """\
name: acme
type: hosted
connection:
  baseUrl: "${ACME_URL:-https://api.acme.test}"
auth:
  type: bearer
  envVar: ACME_KEY
endpoints:
  add:
    method: POST
    path: /add
    body: {text: "$.content", user: "$.runTag"}
  search:
    method: POST
    path: /search
    body: {q: "$.query", user: "$.runTag", n: "$.k"}
    response:
      results: "$.results"
      contentField: "$.text"
  clear:
    method: DELETE
    path: "/users/${runTag}"
"""


def load(text: str, folder: Path, name: str = "acme") -> ProviderConfig:
    return load_provider(Source.parse(text, folder / f"{name}.yaml"))


def refused(text: str, folder: Path, name: str = "acme") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text, folder, name)
    return [str(problem) for problem in caught.value.problems or [caught.value]]


def seed(shared: Path, name: str) -> str:
    text = (shared / "seeds" / "architecture.txt").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if block.startswith(f"name: {name}\n"))


@pytest.mark.parametrize("name", ["supermemory", "mem0"])
def test_the_original_example_configs_load_with_warnings(name: str, shared: Path, tmp_path: Path) -> None:
    config = load(seed(shared, name), tmp_path, name)
    assert config.name == name
    assert any("does not send $.k" in warning for warning in config.warnings)


def test_the_original_chroma_config_is_refused_for_an_unknown_variable(shared: Path, tmp_path: Path) -> None:
    problems = refused(seed(shared, "chroma"), tmp_path, "chroma")
    assert any('chroma.yaml:16:5: unknown variable "collectionId" in endpoints.add.path' in one for one in problems)


def test_the_original_TypeScript_adapter_is_refused_with_a_hint(shared: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(seed(shared, "aqrag"), tmp_path, "aqrag")
    assert "aqrag.yaml:5:1" in str(caught.value)
    assert "Python" in (caught.value.hint or "")
    assert "HTTP or MCP" in (caught.value.hint or "")


def test_every_shipped_provider_file_loads_without_variables(root: Path) -> None:
    shipped = [path for path in (root / "configs/providers").glob("*.yaml") if ".compose" not in path.name]
    assert shipped
    for path in shipped:
        config = load_provider(path)
        assert config.verified is not None, path
        assert config.verified.upstream, path
        assert config.warnings == (), path


def test_all_errors_of_a_provider_file_are_reported_together(tmp_path: Path) -> None:
    text = GOOD.replace("contentField", "contentFeild").replace("$.runTag", "$.runTga").replace("/add\n", "add\n")
    problems = refused(text, tmp_path)
    joined = "\n".join(problems)
    assert 'acme.yaml:19:7: unknown field "contentFeild" in endpoints.search.response' in joined
    assert 'did you mean "contentField"?' in joined
    assert 'acme.yaml:12:31: unknown variable "runTga" in endpoints.add.body; did you mean "runTag"?' in joined
    assert "acme.yaml:11:5" in joined


@each_row(
    ("old", "new", "place", "message"),
    [
        ("name: acme", "name: acme\napiVersion: bench/v9", "2:1", "bench/v1"),
        ("name: acme", "name: Acme Inc", "1:1", "name"),
        ("type: hosted", "type: cloud", "2:1", '"hosted"'),
        ("type: hosted", "type: mcp", "2:1", 'needs "mcp"'),
        ("  baseUrl:", "  timeout: 0\n  baseUrl:", "4:3", "timeout"),
        ("  baseUrl:", "  headers: {X-Key: sk-abcdefghijklmnopqrstuvwx}\n  baseUrl:", "4:13", 'use "auth"'),
        ("  baseUrl:", "  base_url: https://a.test\n  baseUrl:", "5:3", "same field"),
        ("envVar: ACME_KEY", "envVar: sk-0123456789abcdefghijkl", "7:3", "NAME"),
        ("endpoints:", "scoping: {strategy: sometimes}\nendpoints:", "8:11", "containerTags"),
        ("endpoints:", "errors: {error_when: [{path: $.e, equals: 1, kind: bad}]}\nendpoints:", "8:46", "rejected"),
        ("endpoints:", "errors: {error_when: [{path: $.e}]}\nendpoints:", "8:23", "exactly one"),
        ("endpoints:", "limits: {add: {rps: 1, rpm: 60}}\nendpoints:", "8:10", "exclude each other"),
        ("endpoints:", "rateLimit: {addDelayMs: -1}\nendpoints:", "8:13", "addDelayMs"),
        ("endpoints:", "rateLimit: {maxRetries: -1}\nendpoints:", "8:13", "maxRetries"),
        ("endpoints:", "capabilities: {delete_memory: true}\nendpoints:", "8:16", "endpoints.delete"),
        ("endpoints:", "verified: {level: proven, date: 2026-01-01}\nendpoints:", "8:12", "live"),
        ("endpoints:", "verified: {level: live, date: yesterday}\nendpoints:", "8:25", "date"),
        ("method: POST\n    path: /add", "method: SEND\n    path: /add", "10:5", "PATCH"),
        ('{text: "$.content"', '{text: "$.content[?@.a]"', "12:12", "unsupported part of JSONPath"),
        ('{text: "$.content"', "{text: {$column: contnet}", "12:19", 'did you mean "content"'),
        (
            "endpoints:",
            "setup: [{name: a, method: GET, path: /a, existing: {method: GET, path: /a, results: $.x, "
            "match: {$.n: $.runTg}}}]\nendpoints:",
            "8:98",
            'did you mean "runTag"',
        ),
        (
            'contentField: "$.text"',
            'contentField: "$.text"\n      score: {transform: 2-x}',
            "20:15",
            "1/(1+x)",
        ),
    ],
)
def test_each_invalid_setting_is_reported_at_its_place(
    old: str, new: str, place: str, message: str, tmp_path: Path
) -> None:
    assert old in GOOD
    problems = refused(GOOD.replace(old, new, 1), tmp_path)
    assert any(f"acme.yaml:{place}: " in one and message in one for one in problems), problems


def test_a_missing_clear_endpoint_must_be_declared(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("  clear:")]
    assert any("endpoints.clear is missing" in one for one in refused(text, tmp_path))
    assert load(text + "capabilities: {clear: false}\n", tmp_path).endpoints is not None


def test_a_key_in_place_of_a_variable_name_is_not_shown(tmp_path: Path) -> None:
    (problem,) = refused(GOOD.replace("envVar: ACME_KEY", "envVar: sk-0123456789abcdefghijkl"), tmp_path)
    assert "0123456789" not in problem


def test_a_changed_request_body_changes_sha256(tmp_path: Path) -> None:
    assert load(GOOD.replace('n: "$.k"', 'n: "$.k", deep: true'), tmp_path).sha256 != load(GOOD, tmp_path).sha256
