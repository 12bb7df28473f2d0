"""Body trees: typed paths, operators, and unchanged memories."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bench.config.provider.body import Compiler, Scope
from bench.model import Memory, Message, Query, Space
from bench.providers.declarative.variables import BENCH_ID, MemoryFormat, accepted_metadata
from tests.rows import each_row

SPACE = Space(namespace="ns", run_id="r1", benchmark="b", corpus="c")


def fill(tree: object, **values: object) -> object:
    return Compiler().tree(tree).fill(Scope(values))


def test_a_path_has_the_type_of_its_value_and_a_template_is_text() -> None:
    values = {"k": 5, "score": 0.5, "on": True, "none": None, "name": "ns"}
    assert fill({"n": "$.k", "t": "k=${k} ${on} ${score} ${name}"}, **values) == {"n": 5, "t": "k=5 true 0.5 ns"}
    assert fill("$.none", **values) is None
    assert fill("${name}", **values) == "ns"


def test_escaped_text_and_literals_are_sent_unchanged() -> None:
    assert fill(["$$.x", "$${k}", "$5", "a@b", "@home", 3, None, True]) == [
        "$.x",
        "${k}",
        "$5",
        "a@b",
        "@home",
        3,
        None,
        True,
    ]
    assert fill({"$literal": {"$each": "$.k", "x": "${k}"}}) == {"$each": "$.k", "x": "${k}"}


def test_paths_follow_names_indexes_and_stars() -> None:
    items = [{"id": "a", "tags": [1, 2]}, {"id": "b", "tags": []}]
    assert fill("$.items[0].id", items=items) == "a"
    assert fill("$.items[-1].id", items=items) == "b"
    assert fill("$.items[*].id", items=items) == ["a", "b"]
    assert fill("$['items'][0]['tags'][1]", items=items) == 2


def test_each_column_and_json_operators_build_their_values() -> None:
    items = [{"id": "a", "when": None, "content": "x"}, {"id": "b", "when": 3, "content": 'y"'}]
    tree = {"$each": "$.items", "$do": {"i": "@.id", "ns": "$.runTag", "w": {"$omit_if_null": "@.when"}}}
    assert fill(tree, items=items, runTag="ns") == [{"i": "a", "ns": "ns"}, {"i": "b", "ns": "ns", "w": 3}]
    assert fill({"$column": "when"}, items=items) == [None, 3]
    assert fill({"$json": {"c": "$.items[1].content"}}, items=items) == '{"c":"y\\""}'


def test_omit_if_null_removes_keys_and_elements() -> None:
    assert fill({"a": {"$omit_if_null": "$.x"}, "b": [{"$omit_if_null": "$.x"}, 1]}, x=None) == {"b": [1]}
    assert fill({"a": {"$omit_if_null": "$.metadata.lang"}}, metadata={}) == {}
    assert fill({"a": {"$omit_if_null": "$.x"}}, x=0) == {"a": 0}


def test_a_nested_each_uses_the_inner_element() -> None:
    items = [{"messages": [{"role": "user", "content": "hi"}]}]
    tree = {"$each": "$.items", "$do": {"$each": "@.messages", "$do": {"r": "@.role", "c": "@.content"}}}
    assert fill(tree, items=items) == [[{"r": "user", "c": "hi"}]]


texts = st.text(max_size=60) | st.sampled_from(
    [
        "${x}",
        "$.x",
        "$$.x",
        "@.id",
        "$${y}",
        "{$each: 1}",
        '"',
        "\\",
        "\n\t",
        "\u202eRTL",
        "\U0001f408",
        "\u2028",
        "a\0b",
    ]
)
instants = st.none() | st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
memories = st.builds(
    Memory,
    id=texts.filter(bool),
    content=texts,
    when=instants,
    role=st.none() | st.sampled_from(["user", "assistant"]),
    speaker=st.none() | texts,
    session_id=st.none() | texts,
    metadata=st.dictionaries(texts, texts | st.integers() | st.booleans(), max_size=3),
)
leaves = st.sampled_from(["id", "content", "metadata", "role", "uuid", "index", "speaker", "sessionId", "when"])


def templates(leaf: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return trees of maps and lists whose leaves are ``leaf`` or constants."""
    keys = st.text(max_size=8).filter(lambda key: not key.startswith("$"))
    constants = st.none() | st.booleans() | st.integers()
    return st.recursive(
        leaf | constants,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


@given(memory=memories, data=st.data())
def test_any_memory_is_sent_unchanged_through_any_template(memory: Memory, data: st.DataObject) -> None:
    shape = MemoryFormat(metadata_values="any")
    values = shape.batch_variables(SPACE, [memory], [])
    item_variables = shape.item_variables(memory, index=0, namespace="ns")
    tree = data.draw(templates(leaves.map(lambda name: f"$.{name}")))
    inner = data.draw(templates(leaves.map(lambda name: f"@.{name}")))
    sent = json.loads(json.dumps(fill({"root": tree, "each": {"$each": "$.items", "$do": inner}}, **values)))
    wanted = {"root": expected(tree, item_variables), "each": [expected(inner, item_variables)]}
    assert sent == json.loads(json.dumps(wanted))
    assert item_variables["content"] == memory.content
    assert item_variables["id"] == memory.id


def expected(tree: object, item_variables: dict[str, object]) -> object:
    if isinstance(tree, str):
        return item_variables[tree[2:]]
    if isinstance(tree, dict):
        return {key: expected(value, item_variables) for key, value in tree.items()}
    return [expected(value, item_variables) for value in tree] if isinstance(tree, list) else tree


@given(memory=memories)
def test_the_json_operator_preserves_every_text(memory: Memory) -> None:
    values = MemoryFormat(metadata_values="any").batch_variables(SPACE, [memory], [])
    text = fill({"$json": {"c": "$.content", "m": "$.metadata"}}, **values)
    assert isinstance(text, str)
    assert json.loads(text) == {"c": memory.content, "m": {**memory.metadata, BENCH_ID: memory.id}}


def test_a_batch_of_several_memories_has_no_fields_of_a_single_one() -> None:
    two = [Memory(id="a", content="x"), Memory(id="b", content="y")]
    assert "content" not in MemoryFormat().batch_variables(SPACE, two, [])
    assert "content" in MemoryFormat().batch_variables(SPACE, two[:1], [])


def test_batchKey_is_the_same_for_equal_batches() -> None:
    two = [Memory(id="a", content="x"), Memory(id="b", content="y")]
    assert (
        MemoryFormat().batch_variables(SPACE, two, [])["batchKey"]
        == MemoryFormat().batch_variables(SPACE, two, [])["batchKey"]
    )
    assert (
        MemoryFormat().batch_variables(SPACE, two, [])["batchKey"]
        != MemoryFormat().batch_variables(SPACE, two[:1], [])["batchKey"]
    )


@each_row(
    ("form", "wanted"),
    [
        ("iso", "2023-05-08T13:56:00Z"),
        ("date", "2023-05-08"),
        ("unix", 1683554160),
        ("unix_ms", 1683554160000),
        ("omit", None),
    ],
)
def test_timestamp_sets_the_format_of_dates(form: str, wanted: object) -> None:
    shape = MemoryFormat(timestamp=form)  # type: ignore[arg-type]
    aware = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert shape.format_date(aware) == wanted
    assert shape.format_date(aware.replace(tzinfo=None)) == wanted
    assert shape.query_variables(Query(text="q", k=1, when=aware), embedding=None)["queryWhen"] == wanted


def test_each_message_has_a_role_and_the_second_speaker_is_the_assistant() -> None:
    turns = (
        Message(content="hi", speaker="Ana"),
        Message(content="Bo: hello", speaker="Bo"),
        Message(content="bye", role="assistant"),
    )
    memory = Memory(id="a", content="x", messages=turns)
    found = [(one["role"], one["content"]) for one in MemoryFormat().messages(memory)]  # type: ignore[index]
    assert found == [("user", "Ana: hi"), ("assistant", "Bo: hello"), ("assistant", "bye")]
    assert MemoryFormat().item_variables(memory, index=0, namespace="ns")["role"] == "user"


def test_a_memory_without_messages_is_sent_as_one_message() -> None:
    (only,) = MemoryFormat().messages(Memory(id="a", content="text", role="assistant"))
    assert only == {"content": "text", "role": "assistant", "speaker": None, "when": None}


def test_metadata_is_reduced_to_the_allowed_values() -> None:
    given_ = {"t": "x", "n": 1, "b": True, "z": None, "l": [1], "d": {"a": 1}}
    assert accepted_metadata(given_, "any") == given_
    assert accepted_metadata(given_, "flat") == {"t": "x", "n": 1, "b": True}
    assert accepted_metadata(given_, "strings") == {"t": "x", "n": "1", "b": "true"}
    assert accepted_metadata(given_, "none") == {}


def test_session_scoping_sends_the_namespace_as_sessionId() -> None:
    memory = Memory(id="a", content="x", session_id="s1")
    values = MemoryFormat(session_scoped=True).batch_variables(SPACE, [memory], [])
    assert values["sessionId"] == "ns"
    assert fill("$.items[0].sessionId", **values) == "s1"
