"""Invalid templates with their exact messages, and the values that a template needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.config.template import Template
from bench.errors import ConfigError
from tests.rows import each_row

NAMES = ("question", "answer", "metadata.*")
FILTERS = (
    "write ${name|filter}; filters: json, lines, iso, date, time, upper, lower, truncate, default, texts, join, match, "
    "letter"
)
KNOWN = "known names: answer, metadata.*, question"


def refused(text: str, names: tuple[str, ...] = NAMES) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        Template.parse(text, names, where="x.yaml:1:1")
    assert caught.value.where == "x.yaml:1:1"
    return caught.value.message, caught.value.hint


@each_row(
    ("text", "message", "hint"),
    [
        ("${qestion}", 'unknown name "qestion" in a template; did you mean "question"?', KNOWN),
        ("${zzz}", 'unknown name "zzz" in a template', KNOWN),
        ("${Question}", 'unknown name "Question" in a template; did you mean "question"?', KNOWN),
        ("${HOME}", 'unknown name "HOME" in a template', KNOWN),
        ("${other.key}", 'unknown name "other.key" in a template', KNOWN),
        ("${metadata}", 'unknown name "metadata" in a template; did you mean "metadata.*"?', KNOWN),
        ("${}", "${} is an expression, which templates do not support", FILTERS),
        ("${ }", "${ } is an expression, which templates do not support", FILTERS),
        ("${1 + 1}", "${1 + 1} is an expression, which templates do not support", FILTERS),
        ("${__import__('os')}", "${__import__('os')} is an expression, which templates do not support", FILTERS),
        ("${question()}", "${question()} is an expression, which templates do not support", FILTERS),
        ("${question[0]}", "${question[0]} is an expression, which templates do not support", FILTERS),
        ("${{a: 1}}", "${{a: 1}} is an expression, which templates do not support", FILTERS),
        ("${question|}", "${question|} is an expression, which templates do not support", FILTERS),
        ("${question|a-b}", "${question|a-b} is an expression, which templates do not support", FILTERS),
        ("${|upper}", "${|upper} is an expression, which templates do not support", FILTERS),
        ("${question|uper}", 'unknown filter "uper" in ${question|uper}; did you mean "upper"?', FILTERS),
        ("${question|zzz:1}", 'unknown filter "zzz" in ${question|zzz:1}', FILTERS),
        (
            "${question|truncate}",
            'the filter "truncate" needs a number of characters (for example truncate:200) in ${question|truncate}',
            FILTERS,
        ),
        (
            "${question|truncate:x}",
            'the filter "truncate" needs a number of characters (for example truncate:200) in ${question|truncate:x}',
            FILTERS,
        ),
        ("${question|upper:x}", "this filter has no argument, but 'x' was given in ${question|upper:x}", FILTERS),
        ("a ${question", 'unclosed placeholder "${question"', 'close it with "}"; write a literal "${" as "$${"'),
        (
            "${date|lines:'${gold}'}",
            'the filter "lines" can insert speaker, role, text, content, but not "gold" in ${date|lines:\'${gold}\'}',
            FILTERS,
        ),
        ("${question|default:'}", "unclosed quote in ${question|default:'}", "write default:'text'"),
        ("${question|default:'a' b}", "unclosed quote in ${question|default:'a' b}", "write default:'text'"),
        ("${question||upper}", "${question||upper} is an expression, which templates do not support", FILTERS),
        (
            "${" + "x" * 200,
            'unclosed placeholder "${' + "x" * 58 + '"',
            'close it with "}"; write a literal "${" as "$${"',
        ),
        (
            "${session.map(turn => `${turn.gold}`).join('\\n')}",
            "${session.map(turn => `${turn.gold}`).join('\\n')} is an expression, which templates do not support",
            FILTERS,
        ),
        (
            "${session.map(turn => `${turn.text} ${x}`).join('\\n')}",
            "${session.map(turn => `${turn.text} ${x}`).join('\\n')} is an expression, which templates do not support",
            FILTERS,
        ),
        ("${JSON.stringify(session)}", 'unknown name "session" in a template; did you mean "question"?', KNOWN),
    ],
)
def test_an_invalid_template_is_refused_with_the_exact_message_and_hint(text: str, message: str, hint: str) -> None:
    assert refused(text) == (message, hint)


@each_row(
    ("text", "needed"),
    [
        ("plain", set()),
        ("${question}", {"question"}),
        ("${question|default:'-'}", set()),
        ("${question|default:''}", set()),
        ("${question|default}", set()),
        ("${question|upper}", {"question"}),
        ("${question|upper|default:'-'}", set()),
        ("${question|default:'-'|upper}", set()),
        ("${question|default:'-'} ${question}", {"question"}),
        ("${metadata.a} ${answer|lower}", {"metadata.a", "answer"}),
        ("$${question}", set()),
    ],
)
def test_a_name_with_a_default_is_not_needed(text: str, needed: set[str]) -> None:
    template = Template.parse(text, NAMES)
    assert template.needed == needed
    assert template.needed <= template.names
    values = dict.fromkeys(needed, "x")
    template.render(values)
    for name in needed:
        with pytest.raises(ConfigError, match=rf"no value for \$\{{{name}\}}"):
            template.render(dict.fromkeys(needed - {name}, "x"))


def test_a_missing_value_error_suggests_a_default() -> None:
    with pytest.raises(ConfigError) as caught:
        Template.parse("${answer|upper}", NAMES, where="x.yaml:3:5").render({"answer": None})
    assert str(caught.value) == "x.yaml:3:5: no value for ${answer}"
    assert caught.value.hint == "write ${answer|default:''}"


@each_row(
    ("text", "expected"),
    [
        ("${answer|default:'it\\'s'}", "it's"),
        ('${answer|default:"a|b"}', "a|b"),
        ("${answer|default:'a\\nb\\tc'}", "a\nb\tc"),
        ("${answer|default:'a}b'}", "a}b"),
        ("${answer|default:bare words}", "bare words"),
        ("${answer | default : 'x' }", "x"),
        ("${answer|default:'{'}", "{"),
        ("${metadata.a key}", "v"),
        ("${metadata.a-b.c}", "w"),
        ("$${answer} $$ $ {answer}", "${answer} $$ $ {answer}"),
        ("$$${answer|default:'x'}", "$${answer|default:'x'}"),
    ],
)
def test_arguments_quotes_and_escapes_of_filters_are_parsed(text: str, expected: str) -> None:
    assert Template.parse(text, NAMES).render({"metadata.a key": "v", "metadata.a-b.c": "w"}) == expected


def test_templates_with_equal_text_are_equal() -> None:
    one, two = (Template.parse("${answer|upper|default:'x'}", NAMES) for _ in range(2))
    assert one == two and hash(one) == hash(two)
    assert one != Template.parse("${answer|upper|default:'y'}", NAMES)


@given(st.text())
def test_any_text_is_a_template_or_an_error_with_its_place(text: str) -> None:
    try:
        Template.parse(text, NAMES, where="here")
    except ConfigError as error:
        assert error.where == "here" and error.hint


@given(st.text())
def test_text_without_dollar_signs_is_rendered_unchanged(text: str) -> None:
    plain = text.replace("$", "")
    template = Template.parse(plain, NAMES)
    assert template.render({}) == plain and template.names == frozenset()
