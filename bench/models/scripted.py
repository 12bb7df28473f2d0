"""Answer with replies from a file, for tests and for repeating a run without a language model.

``MEMORYBENCH_SCRIPT`` names a file of lines ``{"match": regex, "reply": text, "usage": {...}}``. The first line whose
regex matches the prompt gives the reply. If no line matches, the error contains the digest of the prompt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from bench.config.value_rules import pattern_problem
from bench.errors import ConfigError, Rejected
from bench.model import Completion, Prompt, Usage
from bench.models.usage import estimate_usage, normalise

NAME = "builtin/scripted"
VARIABLE = "MEMORYBENCH_SCRIPT"
KEYS = frozenset({"match", "reply", "usage", "finish"})
FINISHES = ("stop", "length", "refusal", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLine:
    """One line of the file: a regular expression and the reply to prompts that match it."""

    match: re.Pattern[str]
    completion: Completion


class Scripted:
    """The model ``builtin/scripted``, which takes its replies from a file."""

    name = NAME

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = tuple(_lines(path))

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the reply of the first line whose regular expression matches the prompt.

        Raises:
            Rejected: no line matches the prompt.
        """
        text = "\n".join(message.content for message in prompt.messages)
        for line in self._lines:
            if line.match.search(text):
                return _with_usage(line.completion, text)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        raise Rejected(
            f"{NAME}: no line of {self._path.name} matches the prompt with the SHA-256 {digest}",
            hint=f"add a line to the file that {VARIABLE} names",
        )


def _with_usage(completion: Completion, prompt: str) -> Completion:
    if completion.usage is not None:
        return completion
    return replace(completion, usage=estimate_usage(prompt=prompt, reply=completion.text))


def _lines(path: Path) -> Iterator[ScriptLine]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{VARIABLE} names {path}, which cannot be read", hint="name a JSON Lines file") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _line(line, f"{path}:{number}:1")


def _line(text: str, where: str) -> ScriptLine:
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"this line is not JSON: {error}", where=where, hint="write one JSON object per line"
        ) from error
    if not isinstance(tree, dict) or not isinstance(tree.get("match"), str) or not isinstance(tree.get("reply"), str):
        raise ConfigError(
            'a line needs the keys "match" and "reply", each with a text', where=where, hint="see docs/use-a-model.md"
        )
    if unknown := sorted(tree.keys() - KEYS):
        raise ConfigError(f'unknown key "{unknown[0]}"', where=where, hint=f"known: {', '.join(sorted(KEYS))}")
    finish = tree.get("finish", "stop")
    if finish not in FINISHES:
        raise ConfigError(f'unknown finish "{finish}"', where=where, hint=f"known: {', '.join(FINISHES)}")
    problem = pattern_problem(tree["match"], groups=None)
    if problem is not None:
        raise ConfigError(f'"match" {problem}', where=where, hint="write a regular expression of Python's module re")
    return ScriptLine(
        match=re.compile(tree["match"]),
        completion=Completion(
            text=tree["reply"], model=NAME, finish=finish, usage=_usage(tree.get("usage"), where), cost_usd="0"
        ),
    )


def _usage(tree: object, where: str) -> Usage | None:
    """Read the usage of a line; return None if the line has none.

    The fields of the usage have the names of bench or of an OpenAI-compatible server.
    """
    if tree is None:
        return None
    if isinstance(tree, Mapping) and "prompt_tokens" in tree:
        return normalise("openai", {"usage": tree})
    known = {each.name for each in fields(Usage)} - {"estimated"}
    if (
        not isinstance(tree, Mapping)
        or not tree.keys() <= known
        or not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in tree.values())
    ):
        raise ConfigError(
            '"usage" must be a map of token counts, each a whole number of 0 or more',
            where=where,
            hint=f"use the keys {', '.join(sorted(known))}",
        )
    total = tree.get("total_tokens", tree.get("input_tokens", 0) + tree.get("output_tokens", 0))
    return Usage(**{**tree, "total_tokens": total})
