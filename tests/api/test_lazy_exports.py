"""Packages import a module when one of its names is first requested."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import bench
from bench import api
from bench.lazy_exports import CallablePackage, lazy_exports

PACKAGE = """
from bench.lazy_exports import lazy_exports
__getattr__ = lazy_exports(__name__, near="Near also", far="Far")
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Write a package of two modules, of which ``far`` cannot be imported."""
    folder = tmp_path / "room_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "near.py").write_text("Near, also = object(), 7\n")
    (folder / "far.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_lazy_exports_imports_only_the_module_of_the_requested_name(room: str) -> None:
    package = __import__(room)
    assert f"{room}.near" not in sys.modules
    assert package.also == 7
    assert f"{room}.near" in sys.modules and f"{room}.far" not in sys.modules


def test_lazy_exports_looks_up_a_name_once(room: str) -> None:
    package = __import__(room)
    assert "Near" not in vars(package)
    assert package.Near is package.Near is vars(package)["Near"]


def test_lazy_exports_raises_the_error_of_a_module(room: str) -> None:
    with pytest.raises(RuntimeError, match="imported"):
        _ = __import__(room).Far


def test_lazy_exports_raises_AttributeError_for_an_unknown_name(room: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'nothing'"):
        _ = __import__(room).nothing
    assert not hasattr(bench, "nothing")


def test_lazy_exports_uses_the_last_module_that_provides_a_name() -> None:
    named = lazy_exports("bench", events="HIDDEN", errors="HIDDEN UsageError")
    assert named("UsageError") is bench.errors.UsageError


@pytest.mark.parametrize("name", ["plan", "report"])
def test_bench_plan_and_bench_report_are_callable_packages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = getattr(bench, name)
    assert isinstance(package, CallablePackage)
    monkeypatch.setattr(api, name, lambda *arguments, **named: (arguments, named))
    assert package("a", b=1) == (("a",), {"b": 1})


@pytest.mark.parametrize("package", ["", ".engine", ".journal", ".plan", ".receipt", ".stats"])
def test_every_name_in_all_of_a_package_can_be_imported(package: str) -> None:
    listed = import_module(f"bench{package}")
    assert [name for name in listed.__all__ if not hasattr(listed, name)] == []
