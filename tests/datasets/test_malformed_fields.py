"""A value of the wrong kind in a field of a published form is told in one line with its place, or it may be there."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError
from tests.datasets.test_shapes import SHAPES, loaded, placed

FIELDS = 8
"""of each shape, by its seed"""
WRONG = ({"zz": [1]}, [[None]], "soon \u0000?", 7e300, None)

Way = tuple[str | int, ...]


def ways(value: object, way: Way = ()) -> Iterator[Way]:
    """The way to each value of a row; of a list its first element."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*way, key)
            yield from ways(part, (*way, key))
    elif isinstance(value, list) and value:
        yield from ways(value[0], (*way, 0))


def first_row(file: Path) -> object:
    """The first row of a file of lines, or the whole document."""
    text = file.read_text("utf-8")
    return json.loads(text.partition("\n")[0] if file.suffix == ".jsonl" else text)


def put(value: object, way: Way, wrong: object) -> None:
    """Replace what is at the end of the way."""
    for step in way[:-1]:
        value = value[step]  # type: ignore[index]
    value[way[-1]] = wrong  # type: ignore[index]


def replaced(text: str, suffix: str, way: Way, wrong: object) -> str:
    """The file with the value in its first row replaced."""
    if suffix == ".json":
        whole = json.loads(text)
        put(whole, way, wrong)
        return json.dumps(whole)
    start, end, rest = text.partition("\n")
    row = json.loads(start)
    put(row, way, wrong)
    return json.dumps(row) + end + rest


@pytest.mark.parametrize("name", SHAPES)
def test_a_value_of_the_wrong_kind_is_told_with_its_place(name: str, shared: Path, tmp_path: Path) -> None:
    folder = shared / "cases" / "shapes" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    workspace = placed(folder, name, tmp_path / "w")
    files = [
        path for path in sorted(workspace.rglob("*.json*")) if path.name != "expected.json" and path.suffix != ".gz"
    ]
    if not files:
        pytest.skip("the form has no text file")
    chance = random.Random(name)
    every = [(file, way) for file in files for way in ways(first_row(file))]
    for file, way in chance.sample(every, min(FIELDS, len(every))):
        before = file.read_text("utf-8")
        wrong = chance.choice(WRONG)
        file.write_text(replaced(before, file.suffix, way, wrong), encoding="utf-8")
        try:
            dataset = loaded(workspace, name)
        except BenchError as error:
            assert error.where, (way, wrong, error)
            assert "\n" not in error.message or error.message.startswith("data.with."), (way, wrong, error)
            assert error.hint, (way, wrong, error)
        else:
            items = [dataset.item(ref) for ref in dataset.items()]
            assert len(items) == dataset.counts.items
            assert all(item.question.strip() for item in items)
        finally:
            file.write_text(before, encoding="utf-8")
