"""The plan identity: exactly the settings that can change a result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench.plan import Plan, changes
from tests.small_world import World

BASE: dict[str, object] = {"providers": "faulty", "answering_model": "openai/a"}


def plan(world: World, **flags: object) -> Plan:
    return world.plan(**{**BASE, **flags})


def differing(old: Plan, new: Plan) -> list[str]:
    """Return the leaves in which two identities differ."""
    found = [path for path, _, _ in changes(old.identity, new.identity)]
    assert (old.digest == new.digest) == (not found)
    return found


# ------------------------------------------------------------------------ flags


@pytest.mark.parametrize(
    ("flags", "leaves"),
    [
        ({"k": 3}, ["benchmarks.facts.k"]),
        ({"context_budget": 500}, ["benchmarks.facts.context_budget"]),
        ({"seed": 7}, ["settings.seed"]),
        ({"epochs": 2}, ["settings.epochs"]),
        ({"epochs_reducer": "max"}, ["benchmarks.facts.epochs_reducer"]),
        ({"track": "vendor"}, ["settings.track"]),
        ({"allow_code_execution": True}, ["settings.allow_code_execution"]),
        ({"items": "c0q0"}, ["benchmarks.facts.selected", "settings.selection.items"]),
        ({"items_of": "c0"}, ["benchmarks.facts.selected", "settings.selection.items_of"]),
        ({"question_type": "one"}, ["benchmarks.facts.selected", "settings.selection.question_type"]),
        ({"sample": 5}, ["benchmarks.facts.selected", "settings.selection.sample"]),
        ({"limit": 5}, ["benchmarks.facts.selected", "settings.selection.limit"]),
        ({"limit": 50}, ["settings.selection.limit"]),
        ({"metrics": "mrr"}, ["benchmarks.facts.metric_entries", "benchmarks.facts.metrics.accuracy"]),
        ({"evaluators": "exact-match"}, ["benchmarks.facts.evaluators[0]"]),
        ({"answer_prompt": "Say: ${question} ${retrievedContext}"}, ["benchmarks.facts.prompts.answer.default"]),
        ({"judge_prompt": ["Is ${response} right?"]}, ["benchmarks.facts.prompts.judge.default"]),
        ({"set": {"faulty.ingest.text": "dated"}}, ["providers.faulty.config_sha256", "providers.faulty.set"]),
        ({"answering_model": "openai/b"}, ["jobs.facts/faulty|openai/a|none", "models.openai/a"]),
        ({"providers": "faulty bm25"}, ["jobs.facts/bm25|openai/a|none", "providers.bm25"]),
    ],
)
def test_a_setting_that_changes_results_changes_the_digest_and_its_leaf(
    world: World, flags: dict[str, object], leaves: list[str]
) -> None:
    found = differing(plan(world), plan(world, **flags))
    for leaf in leaves:
        assert any(path == leaf or path.startswith(f"{leaf}.") for path in found), found


@pytest.mark.parametrize(
    "flags",
    [
        {"run_id": "another"},
        {"start": 2, "end": 5},
        {"shard": "2/3"},
        {"concurrency": 1},
        {"ingest_concurrency": 1},
        {"rate": ["faulty=5/s"]},
        {"timeout": "5s"},
        {"max_cost": 1},
        {"max_time": "1h"},
        {"max_error_rate": 0.5},
        {"prices": {"openai/a": {"input": 1, "output": 1}}},
        {"set": {"faulty.rateLimit.maxRetries": 9}},
    ],
)
def test_a_setting_that_changes_no_result_keeps_the_digest(world: World, flags: dict[str, object]) -> None:
    one, other = plan(world), plan(world, **flags)
    kept = [path for path in differing(one, other) if not path.startswith("providers.faulty.set")]
    assert kept == []


# ------------------------------------------------------------------------ files and the environment


def edited(name: str, old: str, new: str) -> Callable[[World], None]:
    def edit(world: World) -> None:
        path = world.workspace / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


FACTS, FAULTY, DATA = "configs/benchmarks/facts.yaml", "configs/providers/faulty.yaml", "datasets/facts.jsonl"


@pytest.mark.parametrize(
    ("edit", "leaves"),
    [
        (edited(FACTS, 'version: "1"', 'version: "2"'), {"version", "config_sha256"}),
        (edited(FACTS, "batchSize: 1", "batchSize: 2"), {"config_sha256"}),
        (edited(FACTS, "name: facts", "name: facts\ntags: [new]\ndescription: other words\ndisplayName: Mine"), set()),
        (edited(DATA, "opens with", "unlocks by"), {"dataset.sha256", "dataset.content_sha256"}),
        (edited(DATA, '"sessions":', ' "sessions" :'), {"dataset.sha256"}),
    ],
)
def test_a_change_of_benchmark_config_or_data_changes_its_leaves_of_the_identity(
    world: World, edit: Callable[[World], None], leaves: set[str]
) -> None:
    before = plan(world)
    edit(world)
    assert set(differing(before, plan(world))) == {f"benchmarks.facts.{leaf}" for leaf in leaves}


@pytest.mark.parametrize(
    ("old", "new", "changes_it"),
    [
        ("path: /v1/search", "path: /v2/search", True),
        ("on_unknown: reset", "on_unknown: repeat", True),
        ("timeout: 2000", "timeout: 9000", False),
        ("type: hosted", "type: hosted\ndescription: other words", False),
    ],
)
def test_a_change_of_provider_requests_or_semantics_changes_its_digest(
    world: World, old: str, new: str, changes_it: bool
) -> None:
    before = plan(world)
    edited(FAULTY, old, new)(world)
    assert (differing(before, plan(world)) == ["providers.faulty.config_sha256"]) is changes_it


def test_base_url_and_variables_of_a_config_are_part_of_the_identity(world: World) -> None:
    edited(FAULTY, "name: faulty", "name: faulty\nvars: {region: '${REGION:-eu}', fixed: always}")(world)
    before = plan(world)
    assert _provider(before)["vars"] == {"region": "eu"}
    world.variables["REGION"] = "us"
    assert differing(before, plan(world)) == ["providers.faulty.vars.region"]
    del world.variables["REGION"]
    world.variables["FAULT_URL"] = "http://127.0.0.1:10"
    assert differing(before, plan(world)) == ["providers.faulty.base_url"]


ENDPOINTS = """endpoints:
  add: {tool: add, body: {text: $.content}, response: {ids: $.id}}
  search: {tool: find, body: {q: $.query, n: $.k}, response: {results: $.r, contentField: $.t}}
capabilities: {clear: false}
"""
DOCKER = """type: docker
docker: {compose: ./x.compose.yaml, service: x, healthcheck: /up, baseUrl: "${PLACE:-http://127.0.0.1:1}"}
""" + ENDPOINTS.replace("tool: add", "method: POST, path: /a").replace("tool: find", "method: POST, path: /f")
HOSTED = DOCKER.replace("type: docker", "type: hosted").replace(
    DOCKER.splitlines()[1], 'connection: {baseUrl: "${PLACE:-http://127.0.0.1:1}"}'
)
PGVECTOR = """type: local
adapter: bench.providers.pgvector:Pgvector
client_embeddings: {model: openai/text-embedding-3-small}
local: {url: "${PLACE:-postgresql://me@one/x}"}
"""
RAG = """type: local
adapter: bench.providers.aqrag:Aqrag
client_embeddings: {model: openai/text-embedding-3-small}
local: {database: {type: postgres, connectionString: "${PLACE:-postgresql://me@one/x}"}}
"""
OF_EVERY_KIND = [
    (HOSTED, "base_url", "http://127.0.0.1:1", "http://127.0.0.1:2"),
    (DOCKER, "base_url", "http://127.0.0.1:1", "http://127.0.0.1:2"),
    ('type: mcp\nmcp: {url: "${PLACE:-http://127.0.0.1:1}"}\n' + ENDPOINTS, "base_url", "http://127.0.0.1:1",
     "http://127.0.0.1:2"),
    ("type: mcp\nmcp: {command: [serve, --at, '${PLACE:-one}']}\n" + ENDPOINTS, "environment.mcp.command[2]", "one",
     "two"),
    (HOSTED + "auth: {type: basic, user: '${WHO:-me}', envVar: MY_KEY, optional: true}\n", "base_url",
     "http://127.0.0.1:1", "http://127.0.0.1:2"),
    (HOSTED.replace("PLACE", "BASE").replace('1}"}', '1}", headers: {X-Org: "${PLACE:-a}"}}'),
     "environment.connection.headers.X-Org", "a", "b"),
    (PGVECTOR, "environment.local.url", "postgresql://me@one/x", "postgresql://me@two/x"),
    (RAG, "environment.local.database.connectionString", "postgresql://me@one/x", "postgresql://me@two/x"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "leaf", "before", "after"), OF_EVERY_KIND)
def test_another_address_of_a_provider_of_any_kind_changes_the_digest(
    world: World, text: str, leaf: str, before: str, after: str
) -> None:
    world.write("configs/providers/x.compose.yaml", "services: {}\n")
    world.write("configs/providers/x.yaml", "name: x\n" + text)
    old = plan(world, providers="x")
    world.variables["PLACE"] = after
    new = plan(world, providers="x")
    assert (f"providers.x.{leaf}", before, after) in changes(old.identity, new.identity)
    assert old.digest != new.digest


def test_a_changed_password_keeps_the_digest_and_is_not_shown(world: World) -> None:
    world.write("configs/providers/x.yaml", "name: x\n" + PGVECTOR)
    plans = []
    for password in ("hunter22", "other-word"):
        world.variables["PLACE"] = f"postgresql://me:{password}@one/x?sslpassword={password}"
        plans.append(plan(world, providers="x"))
        assert password not in json.dumps(plans[-1].identity)
    assert differing(*plans) == []


def test_credentials_in_addresses_are_redacted_in_the_identity(world: World) -> None:
    before = plan(world)
    world.variables["FAULT_URL"] = "http://me:hunter22@127.0.0.1:9"
    after = plan(world)
    assert "hunter22" not in json.dumps(after.identity)
    assert _provider(after)["base_url"] == "http://[redacted]@127.0.0.1:9"
    assert differing(before, after) == ["providers.faulty.base_url"]


def test_secrets_in_vars_are_not_shown_in_the_identity(world: World) -> None:
    key = "sk-proj-" + "a1B2c3D4" * 5
    edited(FAULTY, "name: faulty", "name: faulty\nvars: {word: '${WORD}', token: '${TOKEN}'}")(world)
    world.variables.update(WORD=key, TOKEN="hunter22")
    text = json.dumps(plan(world).identity)
    assert key not in text and "hunter22" not in text


def test_secrets_in_set_values_are_redacted_in_the_identity(world: World) -> None:
    found = plan(world, set={"faulty.vars.place": "host=db password=hunter22"})
    assert _provider(found)["set"] == {"vars.place": "host=db password=[redacted]"}


def test_the_identity_of_a_model_is_its_address_dialect_and_settings(world: World) -> None:
    before = plan(world)
    assert before.identity["models"] == {
        "openai/a": {"base_url": "https://api.openai.com/v1", "dialect": "openai", "settings": None}
    }
    world.write("configs/models/openai.yaml", "name: openai\nlimits: {rps: 5}\n")
    assert differing(before, plan(world)) == []
    world.write("configs/models/openai.yaml", "name: openai\nmodels: {a: {fixed_temperature: true}}\n")
    assert [path for path in differing(before, plan(world)) if "settings" in path]
    world.write("configs/models/openai.yaml", "name: openai\n")
    world.variables["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    assert differing(before, plan(world)) == ["models.openai/a.base_url"]


def test_api_keys_are_not_part_of_the_identity(world: World) -> None:
    before = plan(world)
    world.variables["OPENAI_API_KEY"] = "another-key-of-nobody"
    assert differing(before, plan(world)) == []


def test_a_script_of_replies_is_identified_by_its_digest_not_its_path(world: World, tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('{"match": "x", "reply": "y"}\n')
    world.variables["MEMORYBENCH_SCRIPT"] = str(script)
    before = plan(world, answering_model="builtin/scripted")
    script.rename(tmp_path / "moved.jsonl")
    world.variables["MEMORYBENCH_SCRIPT"] = str(tmp_path / "moved.jsonl")
    assert differing(before, plan(world, answering_model="builtin/scripted")) == []
    (tmp_path / "moved.jsonl").write_text('{"match": "x", "reply": "z"}\n')
    assert differing(before, plan(world, answering_model="builtin/scripted")) == [
        "models.builtin/scripted.script_sha256"
    ]


def test_the_embedding_model_of_evaluators_is_part_of_the_identity(world: World) -> None:
    similar = {"evaluators": "semantic-similarity"}
    one, other = (plan(world, **similar, embedding_model=f"openai/{name}") for name in "xy")
    assert differing(one, other) == ["models.openai/x", "models.openai/y"]


def test_the_workspace_path_is_not_part_of_the_identity(tmp_path: Path) -> None:
    plans = []
    for name in ("one", "two"):
        world = World.make(tmp_path / name, "http://127.0.0.1:9", corpora=1, items=2)
        plans.append(world.plan(providers="faulty bm25"))
    assert differing(*plans) == []


# ------------------------------------------------------------------------ the tree itself


def test_jobs_of_the_identity_have_their_settings_and_the_reason_if_skipped(world: World) -> None:
    world.write(
        "configs/benchmarks/listing.yaml",
        'name: listing\nversion: "1"\nextends: facts\nrequiredCapabilities: [list_memories]\n',
    )
    jobs = plan(world, benchmarks="facts listing", providers="faulty bm25@x").identity["jobs"]
    assert isinstance(jobs, Mapping)
    assert {key: job["skipped"] for key, job in jobs.items()} == {
        "facts/faulty|openai/a|none": None,
        "facts/bm25@x|openai/a|none": None,
        "listing/faulty|openai/a|none": "skipped: listing needs list_memories, faulty does not have it",
        "listing/bm25@x|openai/a|none": None,
    }
    assert jobs["facts/bm25@x|openai/a|none"] == {
        "lane": "facts/bm25@x", "benchmark": "facts", "provider": "bm25@x", "embedding": None, "answering": "openai/a",
        "judge": "none", "unit": "session", "level": "session", "skipped": None,
    }  # fmt: skip


def test_the_ingest_unit_of_a_provider_is_the_unit_of_its_lane(world: World) -> None:
    edited(FAULTY, "ingest: {", "ingest: {unit: turn, ")(world)
    turn, session = plan(world, providers="faulty bm25").lanes
    assert [(lane.unit, lane.level) for lane in (turn, session)] == [("turn", "turn"), ("session", "session")]
    edited(FAULTY, "ingest: {unit: turn, ", "ingest: {unit: chunk, chunk: {size: 50, overlap: 5}, ")(world)
    chunked = plan(world, providers="faulty").lanes[0]
    assert (chunked.unit, chunked.level, chunked.text) == ("session", "session", None)


def test_the_same_flags_give_the_same_identity(world: World) -> None:
    assert plan(world).identity == plan(world).identity
    assert json.loads(json.dumps(plan(world).identity)) == plan(world).identity


def _provider(found: Plan) -> Mapping[str, object]:
    providers = found.identity["providers"]
    assert isinstance(providers, Mapping)
    one = providers["faulty"]
    assert isinstance(one, Mapping)
    return one
