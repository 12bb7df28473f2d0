"""The guide on providers: its file connects a real server, and it names every variable and operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from bench.config.file import Source
from bench.config.provider import sections as terms
from bench.config.provider.calls import IdForm
from bench.config.provider.config import ProviderConfig
from bench.config.provider.file import load_provider
from bench.providers.doctor import examine
from tests.contract.running import context_for


@pytest.fixture
def guide(root: Path) -> str:
    return (root / "docs" / "add-a-provider.md").read_text(encoding="utf-8")


@pytest.fixture
def pages(root: Path, guide: str) -> str:
    return guide + (root / "docs" / "reference" / "provider-config.md").read_text(encoding="utf-8")


async def test_the_provider_file_of_the_guide_passes_the_doctor(
    guide: str, fault_server: Callable[..., str], tmp_path: Path
) -> None:
    blocks = re.findall(r"```yaml[^\n]*\n(.*?)```", guide, re.DOTALL)
    (text,) = [block for block in blocks if block.startswith("name: small")]
    config = load_provider(Source.parse(text, tmp_path / "small.yaml"))
    assert config.warnings == ()
    async with context_for(config, tmp_path, {"SMALL_URL": fault_server()}) as context:
        report = await examine(config, context)
    assert report.ok, report.as_json()


def keys(model: type[BaseModel]) -> Iterator[str]:
    """Yield every key of a model and of nested models, in the spelling of files."""
    for name, info in model.model_fields.items():
        yield info.alias or name
        yield from (key for inner in models(info.annotation) for key in keys(inner))


def models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models(inner)


def test_guide_and_reference_contain_every_config_key(pages: str) -> None:
    wanted = set(keys(ProviderConfig))
    missing = [key for key in sorted(wanted) if not re.search(rf"\b({key}|{snake(key)})\b", pages)]
    assert missing == []


def snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match.group(1).lower(), key)


def test_guide_and_reference_contain_every_variable_and_operator(pages: str) -> None:
    names = (
        terms.COMMON_VARIABLES
        | terms.ITEM_VARIABLES
        | terms.ADD_VARIABLES
        | terms.SEARCH_VARIABLES
        | terms.WAIT_VARIABLES
        | terms.CLEAR_VARIABLES
        | terms.DELETE_VARIABLES
    )
    missing = [name for name in sorted(names | set(terms.OPERATORS) | set(keys(IdForm))) if name not in pages]
    assert missing == []
