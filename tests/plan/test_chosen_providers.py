"""Providers of a run: names, variants and config values set by flag."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.config.provider.file import load_provider
from bench.errors import ConfigError, UsageError
from bench.plan import ProviderPlan
from bench.plan.provider import KEYLESS, choose, embedded_by, load_named
from bench.providers.description import embedding_model, service_embedding_model
from bench.settings import Environment
from tests.small_world import World


def chosen(
    world: World, *names: str, embedding: str | None = None, variables: dict[str, str] | None = None, **sets: object
) -> list[ProviderPlan]:
    overrides = {name.replace("__", "."): value for name, value in sets.items()}
    return choose(
        Catalog.load(world.workspace),
        names=names,
        overrides=overrides,
        embedding=embedding,
        environment=Environment(values=variables or {}),
    )


def one(world: World, name: str, **more: object) -> ProviderPlan:
    (found,) = chosen(world, name, **more)  # type: ignore[arg-type]
    return found


# ------------------------------------------------------------------------ names


def test_without_providers_the_keyless_built_in_ones_are_selected(world: World) -> None:
    assert [found.label for found in chosen(world)] == list(KEYLESS)
    assert [found.built_in for found in chosen(world)] == list(KEYLESS)


@pytest.mark.parametrize(
    ("given", "label", "built_in"),
    [
        ("bm25", "bm25", "bm25"),
        ("BM25", "bm25", "bm25"),
        ("LocalBaseline", "bm25", "bm25"),
        ("localbaseline@x", "bm25@x", "bm25"),
        ("faulty", "faulty", None),
        ("Faulty@Big_1", "faulty@Big_1", None),
        ("chroma@a-b", "chroma@a-b", None),
    ],
)
def test_a_provider_is_found_by_name_alias_and_variant(
    world: World, given: str, label: str, built_in: str | None
) -> None:
    found = one(world, given)
    assert (found.label, found.built_in, found.overrides) == (label, built_in, {})
    assert found.config.name == label.partition("@")[0]


def test_providers_keep_the_order_of_the_flags(world: World) -> None:
    names = ("random", "faulty@b", "bm25", "faulty@a", "faulty")
    assert tuple(found.label for found in chosen(world, *names)) == names


def test_a_workspace_config_replaces_a_built_in_provider(world: World) -> None:
    world.provider("bm25")
    found = one(world, "bm25")
    assert (found.built_in, found.config.type) == (None, "hosted")
    assert load_named(Catalog.load(world.workspace), "random").path is None


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (
            ["bm26"],
            'there is no provider "bm26"; did you mean "bm25"?',
            "list the known providers with: bench list providers",
        ),
        (["qqqqqqqq"], 'there is no provider "qqqqqqqq"', "list the known providers with: bench list providers"),
        ([""], 'there is no provider ""', "list the known providers with: bench list providers"),
        (
            ["bm25", "bm25"],
            'provider "bm25" is named twice',
            "name the provider once, or write bm25@a and bm25@b for variants",
        ),
        (
            ["bm25", "Bm25"],
            'provider "bm25" is named twice',
            "name the provider once, or write bm25@a and bm25@b for variants",
        ),
        (
            ["bm25", "random", "local-baseline"],
            'provider "bm25" is named twice',
            "name the provider once, or write bm25@a and bm25@b for variants",
        ),
        (["bm25@x", "bm25@x"], 'provider "bm25@x" is named twice', "remove one of the two"),
        (
            ["bm25@"],
            '"" in "bm25@" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
        (
            ["bm25@a@b"],
            '"a@b" in "bm25@a@b" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
        (
            ["bm25@v1.2"],
            '"v1.2" in "bm25@v1.2" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
        (
            ["bm25@a|b"],
            '"a|b" in "bm25@a|b" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
        (
            ["bm25@a/b"],
            '"a/b" in "bm25@a/b" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
        (
            ["bm25@ü"],
            '"ü" in "bm25@ü" is not a valid label of a provider variant',
            "after the @, use letters, digits, - and _, for example chroma@big",
        ),
    ],
)
def test_an_unknown_duplicate_or_malformed_provider_name_is_rejected(
    world: World, names: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(world, *names)
    assert (caught.value.message, caught.value.hint) == (message, hint)


# ------------------------------------------------------------------------ --set


def test_set_for_a_provider_applies_to_its_variants_unless_the_variant_sets_it(world: World) -> None:
    small, big = chosen(
        world,
        "faulty@small",
        "faulty@big",
        **{"faulty@big__connection__timeout": 3, "faulty__connection__timeout": 1, "faulty__ingest__text": "dated"},
    )
    assert (small.config.connection.timeout, big.config.connection.timeout) == (1, 3)
    assert [found.config.ingest.text for found in (small, big)] == ["dated", "dated"]
    assert small.overrides == {"connection.timeout": 1, "ingest.text": "dated"}
    assert big.overrides == {"connection.timeout": 3, "ingest.text": "dated"}


def test_set_for_a_plain_provider_does_not_apply_to_its_variants_if_both_run(world: World) -> None:
    plain, big = chosen(world, "faulty", "faulty@big", faulty__connection__timeout=7)
    assert (plain.config.connection.timeout, big.config.connection.timeout) == (7, 2000)


@pytest.mark.parametrize("spelled", ["local-baseline", "bm25"])
def test_set_accepts_name_and_alias_of_a_provider(world: World, spelled: str) -> None:
    found = one(world, "local-baseline", **{f"{spelled}__capabilities__max_k": "4"})
    assert found.config.capabilities.max_k == 4


def test_set_does_not_confuse_providers_with_a_common_prefix(world: World) -> None:
    world.provider("faulty-two")
    first, second = chosen(world, "faulty", "faulty-two", **{"faulty-two__connection__timeout": 5})
    assert (first.overrides, second.overrides) == ({}, {"connection.timeout": 5})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("true", True),
        ("null", None),
        ('"5"', "5"),
        ('["a", 1]', ["a", 1]),
        ('{"a": {"b": 1.5}}', {"a": {"b": 1.5}}),
        ("plain words", "plain words"),
        ("", ""),
        ("01", "01"),
        ("{broken", "{broken"),
        ("a=b", "a=b"),
        (7, 7),
        ([1, "x"], [1, "x"]),
    ],
)
def test_a_set_value_is_parsed_as_json_or_used_as_text(world: World, text: object, value: object) -> None:
    found = one(world, "faulty", faulty__endpoints__add__body__extra=text)
    assert found.overrides == {"endpoints.add.body.extra": value}
    assert found.config.endpoints is not None
    body = found.config.endpoints.add.body
    assert isinstance(body, dict) and body["extra"] == value


@pytest.mark.parametrize("key", ["rateLimit.maxRetries", "rate_limit.max_retries", "RATELIMIT.max_retries"])
def test_set_accepts_both_spellings_of_a_key(world: World, key: str) -> None:
    found = one(world, "faulty", **{f"faulty.{key}": 9})
    assert found.config.rate_limit.max_retries == 9


def test_set_creates_missing_maps(world: World) -> None:
    found = one(world, "faulty", faulty__limits__search__rps="2.5")
    assert found.config.limits.search.rps == 2.5


def test_set_changes_the_config_digest_but_not_the_file(world: World) -> None:
    path = world.workspace / "configs/providers/faulty.yaml"
    text = path.read_text()
    sets = {"faulty@x__ingest__text": "dated", "faulty@y__ingest__text": "dated", "faulty@z__connection__timeout": 1}
    plain, once, again, slower = chosen(world, "faulty", "faulty@x", "faulty@y", "faulty@z", **sets)
    assert plain.config.sha256 != once.config.sha256 == again.config.sha256
    assert plain.config.sha256 == slower.config.sha256  # a timeout changes no result
    assert path.read_text() == text
    assert one(world, "bm25").config.sha256 != one(world, "bm25", bm25__capabilities__max_k=3).config.sha256


@pytest.mark.parametrize(
    ("sets", "message", "hint"),
    [
        (
            {"chroma.x": 1},
            "--set chroma.x: this run has no provider chroma",
            "write PROVIDER.KEY=VALUE, for example chroma.ingest.batch.max_items=200",
        ),
        (
            {"fault.x": 1},
            '--set fault.x: this run has no provider fault; did you mean "faulty"?',
            "write PROVIDER.KEY=VALUE, for example chroma.ingest.batch.max_items=200",
        ),
        (
            {"faulty": 1},
            "--set faulty: the key of the config is missing",
            "write PROVIDER.KEY=VALUE, for example chroma.ingest.batch.max_items=200",
        ),
        (
            {"faulty@other.x": 1},
            '--set faulty@other.x: this run has no provider faulty@other; did you mean "faulty"?',
            "write PROVIDER.KEY=VALUE, for example chroma.ingest.batch.max_items=200",
        ),
        (
            {"faulty.name.x": 1},
            "--set faulty.name.x: name is not a map of keys",
            "show the keys with: bench describe faulty",
        ),
        (
            {"faulty.prices.add": "NaN"},
            "--set faulty.prices.add=NaN: NaN and infinities are not JSON",
            "put a text in quotes: '\"NaN\"'",
        ),
        (
            {"faulty.vars.big": "1e999"},
            "--set faulty.vars.big=1e999: NaN and infinities are not JSON",
            "put a text in quotes: '\"1e999\"'",
        ),
        (
            {"faulty.vars.n": 2**53},
            "--set faulty.vars.n=9007199254740992: an integer is not in -(2^53-1)..2^53-1, so programs may read "
            "it differently",
            "put a text in quotes: '\"9007199254740992\"'",
        ),
        (
            {"bm25.type": "cloud"},
            '--set bm25: type must be "hosted" or "local" or "docker" or "mcp", not "cloud"',
            'write "hosted" or "local" or "docker" or "mcp"',
        ),
        (
            {"bm25.capabilities.max_k": "many"},
            '--set bm25: capabilities.max_k must be a whole number, not "many"',
            "write a whole number",
        ),
        (
            {"bm25.name": "mine"},
            "--set bm25.name: the name of a provider cannot be set",
            "write a variant as NAME@LABEL",
        ),
    ],
)
def test_an_invalid_set_is_rejected_with_its_reason(
    world: World, sets: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(world, "faulty", "bm25", **sets)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({"faulty.nonsense": 1}, 'unknown field "nonsense"'),
        ({"faulty.conection.timeout": 1}, 'unknown field "conection"; did you mean "connection"?'),
        ({"faulty.connection.timeout": "fast"}, 'connection.timeout must be a whole number, not "fast"'),
        ({"faulty.connection": 5}, "connection must be a map of keys, not 5"),
        ({"faulty.name": "other"}, 'name "other" differs from the file name "faulty"'),
    ],
)
def test_a_set_that_makes_a_config_invalid_is_named_instead_of_a_line_of_the_file(
    world: World, sets: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(world, "faulty", **sets)
    assert (caught.value.message, caught.value.where) == (f"--set faulty: {message}", None)


# ------------------------------------------------------------------------ models of a provider


def test_the_embedding_model_comes_from_the_flag_or_the_config(world: World) -> None:
    assert one(world, "chroma").embedding == "openai/text-embedding-3-small"
    bare = one(world, "chroma", chroma__client_embeddings__model="text-embedding-3-large")
    assert bare.embedding == "openai/text-embedding-3-large"
    assert one(world, "chroma", embedding="ollama/nomic").embedding == "ollama/nomic"
    assert one(world, "faulty", embedding="ollama/nomic").embedding is None
    assert one(world, "bm25", embedding="ollama/nomic").embedding is None


def test_embedded_by_of_a_service_is_the_model_that_it_is_configured_with(world: World) -> None:
    assert one(world, "letta").embedded_by == "openai/text-embedding-3-small"
    found = one(world, "letta", variables={"LETTA_EMBEDDING": "letta/free"})
    assert (found.embedded_by, found.embedding) == ("letta/free", None)
    assert one(world, "faulty", faulty__embeds_with="bge-m3").embedded_by == "bge-m3"


def test_embedded_by_is_shown_for_models_of_bench_and_of_services_and_none_if_unknown(world: World) -> None:
    assert one(world, "chroma", embedding="ollama/nomic").embedded_by == "ollama/nomic"
    assert (one(world, "mem0").embedded_by, one(world, "mem0").embedding) == ("(builtin)", None)
    assert one(world, "faulty").embedded_by is None
    assert one(world, "bm25").embedded_by is None


def test_embeds_with_is_not_part_of_the_config_digest(world: World) -> None:
    found = one(world, "faulty", faulty__embeds_with="bge-m3").config
    assert found.sha256 == one(world, "faulty").config.sha256


def test_each_shipped_service_declares_its_embedding_model(root: Path) -> None:
    shipped = [
        load_provider(path) for path in sorted((root / "configs/providers").glob("*.yaml")) if "." not in path.stem
    ]
    assert [config.name for config in shipped if embedded_by(config, Environment(values={})) is None] == []


def test_embeds_with_overrides_the_embedding_option_of_a_library(root: Path) -> None:
    config = load_provider(root / "configs/providers/mem0-library.yaml")
    assert (service_embedding_model(config), embedding_model(config)) == ("text-embedding-3-small", None)
    named = config.model_copy(update={"embeds_with": "acme/vectors"})
    assert service_embedding_model(named) == "acme/vectors"


@pytest.mark.parametrize("name", ["aqrag", "contextual-retrieval"])
def test_enriched_by_names_the_model_that_writes_about_stored_chunks(world: World, name: str) -> None:
    assert one(world, name).enriched_by == "openai/gpt-4o-mini"
    renamed = one(world, name, **{f"{name}__local__enhancement__model": "gemini-2.5-flash"})
    assert renamed.enriched_by == "google/gemini-2.5-flash"
    assert one(world, name, **{f"{name}__local__enhancement__enabled": False}).enriched_by is None


def test_providers_without_enhancement_have_no_enriched_by(world: World) -> None:
    for name in ("openrouter-rag", "bm25", "faulty"):
        assert one(world, name).enriched_by is None
