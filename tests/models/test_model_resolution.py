"""Names of models, and errors before a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.model import ModelFile, read_model_file
from bench.errors import BenchError, ConfigError
from bench.models import check_model, resolve_name, variables
from bench.models.names import resolve_target
from bench.settings import Environment
from tests.rows import each_row

EMPTY = Environment(values={})


@each_row(
    ("given", "full"),
    [
        ("gpt-4o", "openai/gpt-4o"),
        ("o3-mini", "openai/o3-mini"),
        ("o1", "openai/o1"),
        ("text-embedding-3-small", "openai/text-embedding-3-small"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("openrouter/meta-llama/llama-3.3-70b-instruct", "openrouter/meta-llama/llama-3.3-70b-instruct"),
        ({"provider": "google", "model": "gemini-2.5-flash"}, "google/gemini-2.5-flash"),
        ({"model": "gpt-4o"}, "openai/gpt-4o"),
        (" builtin/extractive ", "builtin/extractive"),
    ],
)
def test_resolve_name_returns_provider_and_model(given: str | dict[str, str], full: str) -> None:
    assert resolve_name(given) == full


@pytest.mark.parametrize(
    ("given", "near"),
    [("gtp-4o", "gpt-4o"), ("gemni-2.5-flash", "gemini-2.5-flash"), ("cluade-sonnet-4-5", "claude-sonnet-4-5")],
)
def test_a_misspelled_model_name_is_refused_with_a_suggestion(given: str, near: str) -> None:
    with pytest.raises(ConfigError, match=near):
        resolve_name(given)


@pytest.mark.parametrize("given", ["/x", "x/", "llama"])
def test_an_invalid_model_name_is_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        resolve_name(given)


def test_only_the_first_slash_separates_prefix_and_model() -> None:
    place = resolve_target("openrouter/meta-llama/llama-3", Environment(values={"OPENROUTER_API_KEY": "k-123456"}), {})
    assert (place.prefix, place.model) == ("openrouter", "meta-llama/llama-3")


@each_row(
    ("name", "variable"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
        ("google/gemini-x", "GEMINI_API_KEY"),
        ("openrouter/a/b", "OPENROUTER_API_KEY"),
        ("groq/a", "GROQ_API_KEY"),
        ("azure/d", "AZURE_OPENAI_API_KEY"),
        ("builtin/scripted", "MEMORYBENCH_SCRIPT"),
    ],
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable) as caught:
        check_model(name, EMPTY)
    assert caught.value.exit_code == 2


def test_azure_needs_key_and_endpoint() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        check_model("azure/d", Environment(values={"AZURE_OPENAI_API_KEY": "k-123456"}))
    assert variables("azure/d", {}) == ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")


def test_ollama_and_builtin_extractive_need_no_variables() -> None:
    assert check_model("ollama/qwen3", EMPTY) == "ollama/qwen3"
    assert check_model("builtin/extractive", EMPTY) == "builtin/extractive"
    assert variables("ollama/qwen3", {}) == ()


def test_google_accepts_either_key_variable() -> None:
    place = resolve_target("google/gemini-x", Environment(values={"GOOGLE_API_KEY": "k-123456"}), {})
    assert place.headers["x-goog-api-key"] == "k-123456" and place.key_variable == "GOOGLE_API_KEY"


@pytest.mark.parametrize(("name", "near"), [("opnai/gpt-4o", "openai"), ("builtin/extractiv", "builtin/extractive")])
def test_an_unknown_prefix_is_refused_with_a_suggestion(name: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_model(name, EMPTY)
    assert near in f"{caught.value} {caught.value.hint}"


def test_the_base_URL_may_come_from_the_environment() -> None:
    environment = Environment(values={"OPENAI_API_KEY": "k-123456", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1/"})
    assert resolve_target("openai/x", environment, {}).base_url == "http://127.0.0.1:1/v1"


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    environment = Environment(values={"OLLAMA_BASE_URL": "http://bob:hunter2@127.0.0.1:1/v1"})
    with pytest.raises(ConfigError, match=r"the address of 127\.0\.0\.1 contains a user name or password") as caught:
        check_model("ollama/x", environment)
    assert caught.value.where == "OLLAMA_BASE_URL" and "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-a\x7fb"])
def test_a_key_with_a_control_character_is_refused_by_the_name_of_its_variable(key: str) -> None:
    with pytest.raises(ConfigError, match="the key in OPENAI_API_KEY") as caught:
        check_model("openai/x", Environment(values={"OPENAI_API_KEY": key}))
    assert key not in str(caught.value)


def test_repr_of_a_target_does_not_contain_the_key() -> None:
    place = resolve_target("openai/gpt-4o", Environment(values={"OPENAI_API_KEY": "very-secret-key"}), {})
    assert "very-secret-key" not in repr(place)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_model_file_defines_a_new_prefix(tmp_path: Path) -> None:
    file = read_model_file(
        write(
            tmp_path,
            "vllm",
            "name: vllm\ndialect: openai\nbase_url: ${VLLM_URL:-http://127.0.0.1:8001/v1}\n"
            "auth: {type: apikey, envVar: VLLM_KEY}\nlimits: {rpm: 600}\nmodels: {q: {fixed_temperature: true}}\n",
        )
    )
    environment = Environment(values={"VLLM_KEY": "k-123456"})
    place = resolve_target("vllm/q", environment, {"vllm": file})
    assert place.base_url == "http://127.0.0.1:8001/v1" and place.headers == {"X-API-Key": "k-123456"}
    assert place.settings is not None and place.settings.fixed_temperature
    assert variables("vllm/q", {"vllm": file}) == ("VLLM_KEY",)
    with pytest.raises(ConfigError, match="VLLM_KEY"):
        resolve_target("vllm/q", EMPTY, {"vllm": file})


@each_row(
    ("auth", "headers", "query"),
    [
        ("{type: bearer, envVar: K}", {"Authorization": "Bearer k-123456"}, ()),
        ("{type: token, envVar: K}", {"Authorization": "Token k-123456"}, ()),
        ("{type: apikey, envVar: K, header: api-key}", {"api-key": "k-123456"}, ()),
        ("{type: bearer, envVar: K, prefix: ''}", {"Authorization": "k-123456"}, ()),
        ("{type: basic, envVar: K, user: u}", {"Authorization": "Basic dTprLTEyMzQ1Ng=="}, ()),
        ("{type: query, envVar: K, param: key}", {}, (("key", "k-123456"),)),
        ("{type: none}", {}, ()),
        ("{type: bearer, envVar: ABSENT, optional: true}", {}, ()),
    ],
)
def test_each_auth_type_sets_its_headers_or_query(
    tmp_path: Path, auth: str, headers: dict[str, str], query: tuple[tuple[str, str], ...]
) -> None:
    text = f"name: own\ndialect: openai\nbase_url: http://127.0.0.1:1/v1\nauth: {auth}\n"
    file = read_model_file(write(tmp_path, "own", text))
    place = resolve_target("own/m", Environment(values={"K": "k-123456"}), {"own": file})
    assert place.headers == headers and place.query == query


def test_a_model_file_of_a_known_prefix_only_extends_it(tmp_path: Path) -> None:
    file = read_model_file(write(tmp_path, "openai", "name: openai\nlimits: {rpm: 60}\n"))
    place = resolve_target("openai/gpt-4o", Environment(values={"OPENAI_API_KEY": "k-123456"}), {"openai": file})
    assert place.base_url == "https://api.openai.com/v1" and place.headers == {"Authorization": "Bearer k-123456"}
    assert place.file is not None and place.file.limits.rpm == 60


def test_a_model_file_may_use_either_spelling_of_keys() -> None:
    one = ModelFile.model_validate({"name": "x", "dialect": "openai", "base_url": "http://127.0.0.1/", "timeout_s": 5})
    two = ModelFile.model_validate({"name": "x", "dialect": "openai", "baseUrl": "http://127.0.0.1/", "timeoutS": 5})
    assert one == two


def test_every_shipped_model_file_is_valid(root: Path) -> None:
    for path in sorted((root / "configs" / "models").glob("*.yaml")):
        assert read_model_file(path).name == path.stem


def test_a_model_plugin_that_cannot_be_imported_names_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "acme_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-models\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[bench.models]\nacme = no_such_module_at_all:Model\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BenchError, match="acme-models"):
        check_model("acme/m1", EMPTY)


def test_a_model_plugin_provides_models_for_its_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.http import Http
    from bench.models import open_model

    folder = tmp_path / "good_models-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: good-models\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[bench.models]\nparrot = parrot_models:open_parrot\n")
    (tmp_path / "parrot_models.py").write_text(
        "class Parrot:\n    def __init__(self, name):\n        self.name = name\n"
        "def open_parrot(name, *, http, environment, role):\n    return Parrot(name)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert check_model("parrot/p1", EMPTY) == "parrot/p1"
    assert open_model("parrot/p1", http=Http(), environment=EMPTY, role="answering").name == "parrot/p1"


def test_the_list_of_prefixes_names_required_variables() -> None:
    from bench.models.names import VENDORS, prefixes

    known = prefixes()
    assert known.keys() == {*VENDORS, "local"}
    assert "AZURE_OPENAI_ENDPOINT must set the address" in known["azure"]
    assert "GEMINI_API_KEY or GOOGLE_API_KEY" in known["google"] and "no key" in known["ollama"]
