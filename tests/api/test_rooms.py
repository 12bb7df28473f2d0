"""How a package shows its names: each module is imported when a name of it is first asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import bench
from bench import api
from bench.rooms import CallablePackage, lazy_exports

PACKAGE = """
from bench.rooms import lazy_exports
__getattr__ = lazy_exports(__name__, near="Near also", far="Far")
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of two modules; the one called ``far`` cannot be imported."""
    folder = tmp_path / "room_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "near.py").write_text("Near, also = object(), 7\n")
    (folder / "far.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_a_name_brings_its_module_and_no_other(room: str) -> None:
    package = __import__(room)
    assert f"{room}.near" not in sys.modules
    assert package.also == 7
    assert f"{room}.near" in sys.modules and f"{room}.far" not in sys.modules


def test_a_name_is_looked_up_once(room: str) -> None:
    package = __import__(room)
    assert "Near" not in vars(package)
    assert package.Near is package.Near is vars(package)["Near"]


def test_a_module_that_cannot_be_imported_says_why(room: str) -> None:
    with pytest.raises(RuntimeError, match="imported"):
        _ = __import__(room).Far


def test_an_unknown_name_is_an_attribute_error_as_of_any_module(room: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'nothing'"):
        _ = __import__(room).nothing
    assert not hasattr(bench, "nothing")


def test_a_name_given_by_two_modules_comes_from_the_later_one() -> None:
    named = lazy_exports("bench", events="HIDDEN", errors="HIDDEN UsageError")
    assert named("UsageError") is bench.errors.UsageError


@pytest.mark.parametrize("name", ["plan", "report"])
def test_a_room_called_as_its_function_is_that_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = getattr(bench, name)
    assert isinstance(package, CallablePackage)
    monkeypatch.setattr(api, name, lambda *arguments, **named: (arguments, named))
    assert package("a", b=1) == (("a",), {"b": 1})


@pytest.mark.parametrize("package", ["", ".engine", ".journal", ".plan", ".receipt", ".stats"])
def test_every_name_that_a_package_lists_can_be_imported(package: str) -> None:
    listed = import_module(f"bench{package}")
    assert [name for name in listed.__all__ if not hasattr(listed, name)] == []
