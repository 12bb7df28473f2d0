"""Model files: required keys, and the keys that a known prefix does not allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.model import KNOWN_PREFIXES, ModelFile, read_model_file
from bench.errors import ConfigError
from tests.rows import each_row

GOOD = "name: mine\ndialect: openai\nbase_url: http://127.0.0.1:8001/v1\n"


def put(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        read_model_file(path)
    found = caught.value.problems or (caught.value,)
    return [(str(one).removeprefix(f"{path.parent}/"), one.hint) for one in found]


def test_a_model_file_has_defaults(tmp_path: Path) -> None:
    model = read_model_file(put(tmp_path, GOOD))
    assert model == ModelFile(name="mine", dialect="openai", base_url="http://127.0.0.1:8001/v1")
    assert (model.auth, model.timeout_s, model.models, model.api_version) == (None, None, {}, "bench/v1")
    assert (model.limits.rps, model.limits.concurrency, model.limits.feedback) == (None, None, None)
    assert not model.adds_to_known


def test_settings_of_a_model_are_found_by_its_name(tmp_path: Path) -> None:
    model = read_model_file(
        put(tmp_path, GOOD + "models: {'org/m:8b': {context: 8192, fixedTemperature: true}, n: {}}\n")
    )
    assert model.models["org/m:8b"].context == 8192
    assert [model.models[name].fixed_temperature for name in ("org/m:8b", "n")] == [True, False]


@each_row("name", KNOWN_PREFIXES)
def test_a_model_file_may_extend_a_known_prefix(tmp_path: Path, name: str) -> None:
    model = read_model_file(put(tmp_path, f"name: {name}\nlimits: {{rpm: 600}}\n", name))
    assert model.adds_to_known and model.limits.rpm == 600


@each_row(
    ("text", "name", "found"),
    [
        (
            GOOD.replace("name: mine", "name: other"),
            "mine",
            [('mine.yaml:1:1: name "other" differs from the file name "mine"', "rename the file to other.yaml")],
        ),
        (
            "name: mine\n",
            "mine",
            [
                (
                    'mine.yaml:1:1: missing field "dialect"',
                    "add dialect: every file needs this field, except one with the name of a built-in endpoint",
                ),
                (
                    'mine.yaml:1:1: missing field "base_url"',
                    "add base_url: every file needs this field, except one with the name of a built-in endpoint",
                ),
            ],
        ),
        (
            GOOD.replace("mine", "builtin"),
            "builtin",
            [('builtin.yaml:1:1: "builtin" is the prefix of the built-in models', "choose another name")],
        ),
        (
            GOOD.replace("mine", "openai"),
            "openai",
            [
                (
                    'openai.yaml:2:1: openai is a known prefix, so its "dialect" cannot be changed',
                    'remove "dialect", or rename the file',
                )
            ],
        ),
        (
            GOOD.replace("http://", "ftp://"),
            "mine",
            [("mine.yaml:3:1: base_url: must start with http:// or https://", "correct the value")],
        ),
        (
            GOOD.replace("http://", "http://me:pw@"),
            "mine",
            [('mine.yaml:3:1: base_url: contains credentials: use "auth"', "correct the value")],
        ),
        (
            GOOD.replace("dialect: openai", "dialect: opneai"),
            "mine",
            [
                (
                    'mine.yaml:2:1: dialect must be "openai" or "anthropic" or "google", not "opneai"; '
                    'did you mean "openai"?',
                    'write "openai" or "anthropic" or "google"',
                )
            ],
        ),
        (
            GOOD.replace("name: mine", "name: Mine"),
            "Mine",
            [
                (
                    'Mine.yaml:1:1: name: "Mine" is not a valid name: '
                    'expected at most 64 lower case letters, digits, ".", "_" and "-", '
                    "with a letter or digit at the beginning",
                    "correct the value",
                )
            ],
        ),
        (
            GOOD + "models: {m: {contxt: 1}}\n",
            "mine",
            [
                (
                    'mine.yaml:4:14: unknown field "contxt" in models.m; did you mean "context"?',
                    "known fields: context, fixedTemperature, body, stream, batch, path",
                )
            ],
        ),
        (
            GOOD + "models: {m: {context: 0}}\n",
            "mine",
            [("mine.yaml:4:14: models.m.context must be greater than 0, not 0", "correct the value")],
        ),
        (
            GOOD + "timeout_s: 0\n",
            "mine",
            [("mine.yaml:4:1: timeout_s must be greater than 0, not 0", "correct the value")],
        ),
        (
            GOOD + "limits: {rps: 1, rpm: 1}\n",
            "mine",
            [('mine.yaml:4:1: limits: "rps" and "rpm" exclude each other: give one', "correct the value")],
        ),
        (
            GOOD + "auth: {type: bearer}\n",
            "mine",
            [
                (
                    'mine.yaml:4:1: auth: auth of type "bearer" needs "envVar", the name of the variable '
                    "with the API key",
                    "correct the value",
                )
            ],
        ),
    ],
)
def test_a_model_file_that_breaks_a_rule_gets_the_exact_finding_and_hint(
    tmp_path: Path, text: str, name: str, found: list[tuple[str, str]]
) -> None:
    assert refused(put(tmp_path, text, name)) == found


def test_base_url_with_a_variable_is_checked_by_its_default(tmp_path: Path) -> None:
    for url, fine in (("${VLLM_URL}", True), ("${VLLM_URL:-http://h/v1}", True), ("${VLLM_URL:-h/v1}", False)):
        path = put(tmp_path, GOOD.replace("http://127.0.0.1:8001/v1", f'"{url}"'))
        if fine:
            assert read_model_file(path).base_url == url
        else:
            assert refused(path)[0][0] == "mine.yaml:3:1: base_url: must start with http:// or https://"


def test_the_shipped_vllm_model_file_loads_with_optional_auth(root: Path) -> None:
    model = read_model_file(root / "configs" / "models" / "vllm.yaml")
    assert (model.name, model.dialect, model.auth is not None and model.auth.optional) == ("vllm", "openai", True)
