"""Protocol packs: the prompts and rules of a published evaluation protocol. An example is ``longmemeval@1``.

Bench contains paraphrased prompts (``fidelity: adapted``). A workspace can contain the original texts at
``packs/NAME@VERSION/FILE``. If all of these files have their published SHA-256, results are marked ``official``.

Example::

    pack = load_pack("longmemeval@1", workspace=Path("."))
    pack.judge["temporal-reasoning"], pack.fidelity
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.errors import ConfigError
from bench.metrics.protocol import or_list, similar_names

ROOT = Path(__file__).resolve().parent.parent / "packs"
_PYTHON_SLOT = re.compile(r"\{\}")
_SLOTS = {
    "judge": ("question", "answer", "response"),
    "answer": ("retrievedContext", "questionDate", "question"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPack:
    """One evaluation protocol: its prompts for judging and answering, and its rules."""

    name: str
    version: str
    description: str = ""
    judge: Mapping[str, str] = field(default_factory=dict)
    """``default``, ``abstention`` or a question type -> text of the judge prompt"""
    answer: Mapping[str, str] = field(default_factory=dict)
    evaluator: str | None = None
    judge_model: str | None = None
    temperature: float = 0.0
    parse: str = "auto"
    sealed: tuple[str, ...] = ()
    """config keys that a config with this pack must not set"""
    reported: tuple[str, ...] = ()
    fidelity: Literal["adapted", "official"] = "adapted"
    sha256: Mapping[str, str] = field(default_factory=dict)
    """``judge.NAME`` or ``answer.NAME`` of a prompt -> SHA-256 of the text in its file"""

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"


def pack_names(root: Path = ROOT) -> list[str]:
    """Return the sorted names of the packs that ship with bench."""
    return sorted(path.parent.name for path in root.glob("*/pack.yaml"))


def load_pack(
    reference: str, *, workspace: Path | None = None, where: str | None = None, root: Path = ROOT
) -> PromptPack:
    """Load the pack with this reference, such as ``longmemeval@1``.

    In its ``pack.yaml``, ``judge`` and ``answer`` map the name of a prompt to the name of its file. ``official`` maps
    the name of a file to the SHA-256 of the text that the authors published.
    """
    from ruamel.yaml import YAML

    folder = root / reference
    if not (folder / "pack.yaml").is_file() or "/" in reference:
        known = pack_names(root)
        close = similar_names(reference, known)
        hint = f"did you mean {or_list(close)}?" if close else f"known packs: {', '.join(known)}"
        raise ConfigError(f'unknown pack "{reference}"', where=where, hint=hint)
    rules: Mapping[str, Any] = YAML(typ="safe").load((folder / "pack.yaml").read_text(encoding="utf-8"))
    official = rules.get("official", {})
    placed = None if workspace is None else workspace / "packs" / reference
    texts: dict[str, dict[str, str]] = {}
    digests: dict[str, str] = {}
    originals: list[bool] = []
    for role, files in (("judge", rules.get("judge", {})), ("answer", rules.get("answer", {}))):
        texts[role] = {}
        for name, file_name in files.items():
            original = _official_text(placed, file_name, official.get(file_name), where)
            raw = original if original is not None else (folder / file_name).read_text(encoding="utf-8")
            originals.append(original is not None)
            digests[f"{role}.{name}"] = hashlib.sha256(raw.encode()).hexdigest()
            texts[role][name] = raw if original is None else _with_placeholders(raw, role)
    return PromptPack(
        name=rules["name"],
        version=rules["version"],
        description=rules.get("description", ""),
        judge=texts["judge"],
        answer=texts["answer"],
        evaluator=rules.get("evaluator"),
        judge_model=rules.get("judge_model"),
        temperature=float(rules.get("temperature", 0)),
        parse=rules.get("parse", "auto"),
        sealed=tuple(rules.get("sealed", ())),
        reported=tuple(rules.get("reported", ())),
        fidelity="official" if originals and all(originals) else "adapted",
        sha256=digests,
    )


def _official_text(placed: Path | None, file_name: str, digest: str | None, where: str | None) -> str | None:
    """Return the published text of a prompt from the workspace, or None if the workspace has no such file.

    If the file has another digest, a ConfigError is raised.
    """
    path = None if placed is None else placed / file_name
    if path is None or not path.is_file():
        return None
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if digest is None:
        raise ConfigError(
            f"{path} is not allowed: the pack has no official text for {path.name}",
            where=where,
            hint="remove this file",
        )
    if found != digest:
        raise ConfigError(
            f"{path} is not the official text: its SHA-256 is {found}, expected {digest}",
            where=where,
            hint="replace this file with the official text, or remove it",
        )
    return content.decode("utf-8")


def _with_placeholders(text: str, role: str) -> str:
    """Replace each ``{}`` in a text by a placeholder such as ``${question}``.

    The order of the placeholders depends on ``role``.
    """
    names = iter(_SLOTS[role])
    escaped = text.replace("${", "$${")
    return _PYTHON_SLOT.sub(lambda match: "${" + next(names, "question") + "}", escaped)


def check_sealed(pack: PromptPack, given: Mapping[str, str | None]) -> None:
    """Raise a ConfigError if a config sets a key that the pack fixes.

    ``given`` maps each key that the config sets to its place in the file.
    """
    for key, where in given.items():
        if any(key == sealed or key.startswith(f"{sealed}.") for sealed in pack.sealed):
            raise ConfigError(
                f'"{key}" is fixed by the pack {pack.id}',
                where=where,
                hint="remove the key, or remove the pack and use your own prompts",
            )


@functools.cache
def _generic_pack() -> PromptPack:
    return load_pack("generic@1")


def generic_prompt(name: str) -> str:
    """Return the generic judge prompt with this name. Benchmarks without a judge prompt of their own use it."""
    return _generic_pack().judge[name]


def generic_answer_prompt(name: str = "default") -> str:
    """Return the generic answer prompt, for benchmarks without their own.

    ``name`` is "default", or "choices" for multiple choice.
    """
    return _generic_pack().answer[name]
