"""Values of the wrong type in published forms: an error with its place, or accepted."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.datasets.draft.config_draft import draft_benchmark
from bench.errors import BenchError
from tests.datasets.test_published_shapes import SHAPES, loaded, placed

FIELDS = [4, pytest.param(1000, marks=pytest.mark.long)]
"""of each shape, by its seed; all of them in the long run"""
WRONG = ({"zz": [1]}, [[None]], "soon \u0000?", 7e300, None)

Way = tuple[str | int, ...]


def ways(value: object, way: Way = ()) -> Iterator[Way]:
    """Yield the path to each value of a row; of a list only to its first element."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield (*way, key)
            yield from ways(part, (*way, key))
    elif isinstance(value, list) and value:
        yield from ways(value[0], (*way, 0))


def first_row(file: Path) -> object:
    """Return the first row of a file of lines, or the whole document."""
    text = file.read_text("utf-8")
    return json.loads(text.partition("\n")[0] if file.suffix == ".jsonl" else text)


def put(value: object, way: Way, wrong: object) -> None:
    """Replace the value at the end of the path."""
    for step in way[:-1]:
        value = value[step]  # type: ignore[index]
    value[way[-1]] = wrong  # type: ignore[index]


def replaced(text: str, suffix: str, way: Way, wrong: object) -> str:
    """Return the file with a value in its first row replaced."""
    if suffix == ".json":
        whole = json.loads(text)
        put(whole, way, wrong)
        return json.dumps(whole)
    start, end, rest = text.partition("\n")
    row = json.loads(start)
    put(row, way, wrong)
    return json.dumps(row) + end + rest


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_value_of_the_wrong_type_is_refused_with_its_place_or_accepted(
    name: str, fields: int, shared: Path, tmp_path: Path
) -> None:
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
    for file, way in chance.sample(every, min(fields, len(every))):
        before = file.read_text("utf-8")
        wrong = chance.choice(WRONG)
        file.write_text(replaced(before, file.suffix, way, wrong), encoding="utf-8")
        try:
            dataset = loaded(workspace, name)
        except BenchError as error:
            assert error.where, (way, wrong, error)
            assert all(re.match(r"(error|note): \S+:\d*", more) for more in error.message.split("\n")[1:]), (way, error)
            assert error.hint, (way, wrong, error)
        else:
            items = [dataset.item(ref) for ref in dataset.items()]
            assert len(items) == dataset.counts.items
            assert all(item.question.strip() for item in items)
        finally:
            file.write_text(before, encoding="utf-8")


def draft_of(folder: Path, workspace: Path) -> Path:
    """Return the data of a shape without its expectations, like the data of a user."""
    data = workspace / "d"
    shutil.copytree(folder, data, copy_function=shutil.copyfile)
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for name in ("expected.json", "proposal.yaml", "shape.md"):
        (data / name).unlink()
    return data


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("name", SHAPES)
def test_drafting_from_malformed_data_gives_a_valid_config_or_an_error_with_hint(
    name: str, fields: int, shared: Path, tmp_path: Path
) -> None:
    folder = shared / "cases" / "shapes" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    data = draft_of(folder, tmp_path)
    files = [path for path in sorted(data.rglob("*.json*")) if path.suffix != ".gz"]
    if not files:
        pytest.skip("the form has no text file")
    chance = random.Random(f"draft {name}")
    every = [(file, way) for file in files for way in ways(first_row(file))]
    for file, way in chance.sample(every, min(fields // 2, len(every))):
        before = file.read_text("utf-8")
        file.write_text(replaced(before, file.suffix, way, chance.choice(WRONG)), encoding="utf-8")
        try:
            made = draft_benchmark("mine", data, tmp_path)
        except BenchError as error:
            assert error.hint, (way, error)
        else:
            made.path.parent.mkdir(parents=True, exist_ok=True)
            made.path.write_text(made.text, encoding="utf-8")
            assert Catalog.load(tmp_path).benchmark("mine").name == "mine"
            made.path.unlink()
        finally:
            file.write_text(before, encoding="utf-8")
