"""JSON replies of a judge: read strictly and repaired once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.json_reply import ReplySchema
from bench.model import ChatMessage, Completion, Prompt, Usage
from bench.models.chat import SchemaJudge
from tests.rows import each_row

SCHEMA = ReplySchema(
    {
        "type": "object",
        "properties": {
            "correct": {"type": "boolean"},
            "score": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "label": {"enum": ["good", "bad"]},
            "reasons": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["correct"],
        "additionalProperties": False,
    }
)


@each_row(
    ("text", "value"),
    [
        ('{"correct": true}', {"correct": True}),
        (' {"correct": false, "score": 0.5}\n', {"correct": False, "score": 0.5}),
        ('```json\n{"correct": true}\n```', {"correct": True}),
        ('```\n{"correct": true}\n```', {"correct": True}),
        ('{"correct": true, "score": null, "label": "good", "reasons": ["a"]}', ...),
        ('{"correct": "true"}', None),
        ('{"correct": 1}', None),
        ("{}", None),
        ('{"correct": true, "other": 1}', None),
        ('{"correct": true, "score": 2}', None),
        ('{"correct": true, "score": NaN}', None),
        ('{"correct": true, "score": "0.5"}', None),
        ('{"correct": true, "label": "CORRECT"}', None),
        ('{"correct": true, "reasons": [1]}', None),
        ('{"correct": true, "correct": false}', None),
        ('[{"correct": true}]', None),
        ('{"correct": true} {"correct": false}', None),
        ('The answer is {"correct": true}', None),
        ("yes, CORRECT", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_only_one_object_of_the_schema_is_accepted_as_reply(text: str, value: object) -> None:
    found = SCHEMA.read(text)
    assert found == (json.loads(text) if value is ... else value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_the_empty_schema_accepts_every_value(value: object) -> None:
    assert ReplySchema({}).accepts(value)


@each_row(
    ("value", "schema", "right"),
    [
        (1, {"type": "integer"}, True),
        (1.5, {"type": "integer"}, False),
        (True, {"type": "integer"}, False),
        (True, {"const": 1}, False),
        (1, {"const": 1}, True),
        (None, {"type": "null"}, True),
        ({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": {"type": "string"}}}}}, False),
    ],
)
def test_schema_types_are_exact(value: object, schema: dict[str, object], right: bool) -> None:
    assert ReplySchema(schema).accepts(value) is right


@dataclass
class Replies:
    """A model that returns its lines in order."""

    lines: list[Completion]
    prompts: list[Prompt] = field(default_factory=list)
    name: str = "test/replies"

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        return self.lines[len(self.prompts) - 1]


def reply(text: str, **more: object) -> Completion:
    used = Usage(input_tokens=10, output_tokens=1, total_tokens=11)
    return Completion(text=text, model="m", usage=used, cost_usd="0.25", **more)  # type: ignore[arg-type]


QUESTION = Prompt(messages=(ChatMessage(role="user", content="Is it right?"),), json_schema=SCHEMA)


async def test_a_valid_reply_is_returned_unchanged() -> None:
    model = Replies([reply('{"correct": true}')])
    assert (await SchemaJudge(model).ask(QUESTION)).text == '{"correct": true}'
    assert len(model.prompts) == 1


async def test_an_invalid_reply_is_repaired_once_and_both_requests_are_paid() -> None:
    model = Replies([reply("It is right."), reply('{"correct": true}')])
    answer = await SchemaJudge(model).ask(QUESTION)
    assert answer.text == '{"correct": true}' and answer.cost_usd == "0.50"
    assert answer.usage is not None and answer.usage.input_tokens == 20
    roles = [message.role for message in model.prompts[1].messages]
    assert roles == ["user", "assistant", "user"] and model.prompts[1].messages[1].content == "It is right."


async def test_a_second_invalid_reply_is_returned_without_a_third_request() -> None:
    model = Replies([reply("yes"), reply("still yes")])
    answer = await SchemaJudge(model).ask(QUESTION)
    assert answer.text == "still yes" and SCHEMA.read(answer.text) is None
    assert len(model.prompts) == 2


@pytest.mark.parametrize("finish", ["length", "refusal"])
async def test_a_truncated_or_refused_reply_is_not_repaired(finish: str) -> None:
    model = Replies([reply('{"correct": tr', finish=finish)])
    assert (await SchemaJudge(model).ask(QUESTION)).finish == finish
    assert len(model.prompts) == 1


async def test_without_a_schema_any_text_is_accepted() -> None:
    model = Replies([reply("CORRECT")])
    prompt = Prompt(messages=QUESTION.messages)
    assert (await SchemaJudge(model).ask(prompt)).text == "CORRECT" and len(model.prompts) == 1
