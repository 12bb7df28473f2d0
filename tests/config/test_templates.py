"""Templates insert values once, run no code, and do not read the environment."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bench.config.template import Template
from bench.config.value_rules import find_variables
from bench.model import Turn
from tests.rows import each_row

TURNS = (Turn(id="1", text="hi", role="user"), Turn(id="2", text="yo", speaker="Ann", caption="a dog"))
NAMES = ("date", "sessionDate", "session", "turns", "metadata.*", "none")
VALUES = {
    "date": datetime(2023, 5, 20, 2, 21, tzinfo=UTC),
    "sessionDate": "2:21 am",
    "session": TURNS,
    "turns": 2,
    "metadata.who": "Bo",
}


def render(text: str) -> str:
    return Template.parse(text, NAMES).render(VALUES)


@each_row(
    ("text", "expected"),
    [
        ("${date} ${date|date} ${date|time}", "2023-05-20T02:21:00Z 2023-05-20 02:21"),
        ("${session}", "user: hi\nAnn: yo [shares a dog]"),
        ("${session|lines:'${speaker} said ${text}'}", "user said hi\nAnn said yo [shares a dog]"),
        ("${session|join:' / '}", "user: hi / Ann: yo [shares a dog]"),
        ("$${date} {{7*7}} $(id) $", "${date} {{7*7}} $(id) $"),
        ("${none|default:'-'}|${sessionDate|upper|truncate:4}", "-|2:21"),
        ("${ metadata.who | lower } ${turns}", "bo 2"),
        ("${none|default:'a|b}'}", "a|b}"),
    ],
)
def test_values_are_rendered_with_their_filters(text: str, expected: str) -> None:
    assert render(text) == expected


def test_the_two_JavaScript_forms_of_older_files_are_supported() -> None:
    as_json = render("Date: ${date}\nSession: ${ JSON.stringify( session ) }\n")
    assert json.loads(as_json.split("Session: ")[1]) == [
        {"role": "user", "content": "hi"},
        {"speaker": "Ann", "content": "yo [shares a dog]"},
    ]
    assert render("${session.map(turn => `${turn.speaker}: ${turn.text}`).join('\\n')}") == (
        "user: hi\nAnn: yo [shares a dog]"
    )


@given(st.text())
def test_w6_inserted_values_are_not_rendered_again(value: str) -> None:
    template = Template.parse("<${a}${b}>", ["a", "b"])
    assert template.render({"a": value, "b": "${a}"}) == f"<{value}${{a}}>"


def test_find_variables_returns_name_default_and_path() -> None:
    tree = {"url": "${HOST:-http://x}/${PATH_ID}", "list": ["$${NOT}", "${lower}", {"k": "${KEY}"}]}
    found = [(variable.name, variable.default, variable.path) for variable in find_variables(tree)]
    assert found == [("HOST", "http://x", ("url",)), ("PATH_ID", None, ("url",)), ("KEY", None, ("list", 2, "k"))]
