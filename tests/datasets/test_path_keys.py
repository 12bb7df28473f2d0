"""Path keys of a benchmark: a path that matches nothing is reported as an error or a note."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
from pydantic import AfterValidator, BaseModel

from bench.config.benchmark.config import BenchmarkFile
from bench.config.benchmark.manifest import Manifest
from bench.config.benchmark.terms import FieldPath
from bench.config.catalog import Catalog
from bench.datasets.validation import validate_benchmark
from tests.datasets.conftest import Workspace
from tests.rows import each_row

IS_PATH = next(one for one in get_args(FieldPath) if isinstance(one, AfterValidator))
NOWHERE = "zzz"


def paths_of(model: type[BaseModel]) -> set[str]:
    """Return every key of a model, with dots, whose value is a path or a map of paths."""
    return {name for key, info in model.model_fields.items() for name in _below(key, info.annotation, info.metadata)}


def _below(key: str, annotation: object, metadata: list[object]) -> Iterator[str]:
    if IS_PATH in metadata:
        yield key
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from (f"{key}.{name}" for name in paths_of(annotation))
    elif get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from _below(key, inner, more)
    else:
        for part in get_args(annotation):
            yield from _below(key, part, [])


TURN = {"who": "user", "name": "Ann", "words": "I like tea.", "said": "I like tea.", "pic": "a cup", "tid": "t1",
        "key": "k1", "at": "2024-05-01"}  # fmt: skip
QUESTION = {
    "qid": "n1",
    "q": "What?",
    "a": "tea",
    "gold": ["t1"],
    "cat": "fact",
    "day": "2024-05-02",
    "opts": ["tea"],
    "facts": [{"say": "says tea", "ok": True}],
    "ok": True,
    "quotes": ["I like tea."],
}
ROW = {
    "id": "r", "q": "What?", "a": "tea", "opts": ["tea", "milk"], "points": ["says tea"], "right": "tea",
    "talk": [[TURN]], "days": ["2024-05-01"], "sids": ["s1"], "gold": ["s1"], "turns": ["t1"], "none": False,
    "group": "g", "until": "1", "kind": "fact", "qa": [QUESTION],
}  # fmt: skip
TURN_PARTS = {"role": "who", "speaker": "name", "caption": "pic", "dialog_id": "tid"}
CONTEXT = {"field": "talk", "type": "array", "date_field": "days", "session_id_field": "sids"}
FLAT: dict[str, object] = {
    "name": "t",
    "version": "1",
    "data": {"type": "local", "path": "./datasets/t.json"},
    "schema": {
        "item_id": "id", "question": "q", "answer": "a", "choices": "opts", "rubric": "points",
        "choice_answer": "right",
        "context": {**CONTEXT, "item_schema": {**TURN_PARTS, "content": "words"}},
        "metadata": {"questionType": "kind"},
    },
    "evidence": {"session_ids_field": "gold", "turn_ids_field": "turns", "turn_flag": "who"},
    "abstention": {"field": "none"},
    "corpus": {"field": "group"},
    "visibility": {"field": "until"},
    "evaluation": {"method": "mcq"},
}  # fmt: skip
NESTED = {
    **FLAT,
    "schema": {
        "item_id": "id",
        "context": {**CONTEXT, "item_schema": {"role": "who", "text": "said", "id": "key", "date": "at"}},
        "questions": {
            "field": "qa", "question_field": "q", "answer_field": "a", "evidence_field": "gold",
            "category_field": "cat", "id_field": "qid", "date_field": "day", "choices_field": "opts",
            "where": {"ok": True},
        },
        "rubric": {"from": "facts", "text": "say", "where": {"ok": True}},
    },
    "evidence": {"texts_field": "quotes"},
    "evaluation": {"method": "exact-match"},
}  # fmt: skip

JOINED = {
    "name": "t",
    "version": "1",
    "data": {
        "type": "local", "path": "./datasets/t.json", "rows": "$.all[*]", "where": {"kind": "fact"},
        "with": {
            "literal": {"decode": "lit"},
            "pairs": {"zip": {"q": "qs", "a": "as"}},
            "others": {"file": "other.json", "rows": "$.list[*]", "where": {"ok": True}, "key": "oid", "by": "ref",
                       "many": True},
        },
    },
    "schema": {
        "item_id": "id", "question": "q", "choices": {"from": "opts"}, "choice_answer": "right",
        "context": [
            {"field": "others", "session": {"id": "sid", "date": "day", "turns": "lines"},
             "item_schema": {"content": "words", "id": "tid"}},
            {"field": "note", "type": "session", "id": "nid", "item_schema": {"content": "words", "id": "tid"}},
        ],
    },
    "evidence": {"turn_ids_field": "spans", "reference": "span", "grade": "gain", "parser": "ranges"},
    "abstention": {"where": {"none": True}},
    "evaluation": {"method": "mcq"},
}  # fmt: skip
WORDS = {"words": "I like tea.", "tid": "7"}
JOINED_ROW = {**ROW, "lit": "['x']", "qs": ["1"], "as": ["2"], "ref": "o", "nid": "n",
              "spans": [{"span": "7-7", "gain": 2}], "note": [{**WORDS, "tid": "8"}]}  # fmt: skip
OTHER = {"list": [{"oid": "o", "ok": True, "sid": "s1", "day": None, "lines": [WORDS]}]}

REQUIRED = {
    "manifest_version": "1", "name": "m", "version": "1", "data_file": "data.json", "metrics": [],
    "required_capabilities": ["add_memory"],
}  # fmt: skip
EXACT = {"protocol": "exact-match"}
QUERY = {"question_field": "q", "expected_answer_field": "a", "date_field": "day"}
COMMON = {"evidence_field": "turns", "answer_session_ids_field": "gold", "corpus_field": "group"}
SESSIONS = {"strategy": "session-based", "sessions_field": "talk", "session_ids_field": "sids", "dates_field": "days"}
DELETING = {"strategy": "add-delete-verify", "add_content_field": "q", "delete_target_field": "id",
            "verify_query_field": "q"}  # fmt: skip
MANIFESTS: list[dict[str, object]] = [
    {**REQUIRED, "id_field": "id", "abstention": {"field": "none", "where": {"none": True}}, "query": QUERY,
     "evaluation": EXACT, "ingestion": {**SESSIONS, **COMMON}},
    {**REQUIRED, "id_field": "id", "query": QUERY, "evaluation": EXACT, "flatten": {"field": "qa"},
     "ingestion": {"strategy": "simple", "content_field": "q"}},
    {**REQUIRED, "id_field": "id", "query": QUERY, "ingestion": DELETING, "evaluation": EXACT},
    {**REQUIRED, "id_field": "id", "query": QUERY, "ingestion": DELETING,
     "evaluation": {"protocol": "deletion-check", "verification_query_field": "q", "deleted_content_field": "q"}},
    {**REQUIRED, "id_field": "id", "query": QUERY, "ingestion": SESSIONS,
     "evaluation": {"protocol": "llm-as-judge", "type_field": "kind"}},
]  # fmt: skip
LINES = {**ROW, "day": "2024-05-02", "qa": [{}], "talk": [[{"role": "user", "content": "I like tea."}]]}


def spelled(path: str) -> str:
    """Return a key of the model in the spelling of a file."""
    names = {"fields": "schema", "with_": "with", "from_": "from"}
    return ".".join(names.get(part, part) for part in path.split("."))


def key_of(at: tuple[str | int, ...]) -> str:
    """Return the key of the model for a place in a file: without names of steps and indexes of lists."""
    parts = [str(part) for part in at if not isinstance(part, int)]
    return ".".join(parts[:2] + parts[3:] if parts[:2] == ["data", "with"] else parts)


def places_in(tree: Mapping[str, object], model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Yield the places in a config with a path of the model."""
    known = {spelled(path) for path in paths_of(model)}

    def walk(node: Mapping[str, object] | list[object], at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
            here = (*at, key)
            if isinstance(value, Mapping | list):
                yield from walk(value, here)
            elif key_of(here) in known or key_of(at) in known:
                yield here

    yield from walk(tree, ())


def findings(workspace: Workspace, tree: Mapping[str, object], at: tuple[str, ...]) -> list[str]:
    """Return the findings for a config in which one path matches nothing."""
    changed = copy.deepcopy(dict(tree))
    node: dict[str, object] = changed
    for part in at[:-1]:
        node = node[part]  # type: ignore[assignment]
    if at and at[-2:-1] == ("where",):
        node[NOWHERE] = node.pop(at[-1])
    elif at:
        node[at[-1]] = NOWHERE
    if "manifest_version" in tree:
        path = workspace.manifest(str(changed.pop("name")), **changed)
        (path.parent / "data.json").write_text(json.dumps([LINES]), encoding="utf-8")
    else:
        path = workspace.yaml("t", json.dumps(changed))
        workspace.data("other.json", OTHER)
        workspace.data("t.json", {"all": [JOINED_ROW]} if "with" in tree["data"] else [ROW])  # type: ignore[operator]
    found = validate_benchmark(path, Catalog.load(workspace.root))
    return [*map(str, found.errors), *found.notes]


CONFIGS = [FLAT, NESTED, JOINED, *MANIFESTS]
OVERRULED = {("deletion-check", ("ingestion", "verify_query_field"))}
"""not read: the key of the protocol has precedence"""


def cases() -> Iterator[tuple[Mapping[str, object], tuple[str, ...]]]:
    for tree in CONFIGS:
        evaluation = tree["evaluation"]
        assert isinstance(evaluation, dict)
        for at in places_in(tree, Manifest if "manifest_version" in tree else BenchmarkFile):
            if (evaluation.get("protocol"), at) not in OVERRULED:
                yield tree, at


@pytest.mark.parametrize("tree", CONFIGS, ids=range(len(CONFIGS)))
def test_a_config_that_matches_its_data_has_no_findings(workspace: Workspace, tree: Mapping[str, object]) -> None:
    assert [text for text in findings(workspace, tree, ()) if "evidence that is neither a session" not in text] == []


@each_row(("tree", "at"), cases())
def test_a_path_that_matches_nothing_is_reported_by_its_name(
    tmp_path: Path, tree: Mapping[str, object], at: tuple[str, ...]
) -> None:
    workspace = Workspace(tmp_path)
    found = findings(workspace, tree, at)
    assert any(NOWHERE in text for text in found), found


def test_the_configs_of_this_module_use_every_path_key() -> None:
    assert keys_of(BenchmarkFile, FLAT, NESTED, JOINED) == set(map(spelled, paths_of(BenchmarkFile)))
    assert keys_of(Manifest, *MANIFESTS) == set(map(spelled, paths_of(Manifest)))


def keys_of(model: type[BaseModel], *trees: Mapping[str, object]) -> set[str]:
    """Return the keys of the model in the configs; those of maps without the mapped names."""
    ends = (".questionType", ".q", ".a", ".kind", ".ok", ".none")
    keys = {key_of(at) for tree in trees for at in places_in(tree, model)}
    return {next((key.removesuffix(end) for end in ends if key.endswith(end)), key) for key in keys}
