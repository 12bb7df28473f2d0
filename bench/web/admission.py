"""Which runs may be asked for over HTTP: configs by name, texts as texts; no file, no code, no command, no address.

Example::

    request = admit({"benchmarks": ["demo"], "providers": ["bm25"], "limit": 20})
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.config.run import RunRequest
from bench.errors import UsageError

FORBIDDEN = frozenset(
    {
        "on_end", "sign", "key", "output", "cluster", "shards", "allow_code_execution", "publishable", "download",
        "judge_calibration",
    }
)  # fmt: skip
"""flags that start processes, read keys, write elsewhere or fetch"""
NAMES = ("benchmarks", "providers", "evaluators")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
SETTABLE = frozenset(
    {"ingest", "wait", "rate_limit", "ratelimit", "limits", "vars", "prices", "client_embeddings", "clientembeddings"}
)
"""parts of a provider's config that ``set`` may change: never its address, credentials, calls or adapter"""


def admit(flags: Mapping[str, object]) -> RunRequest:
    """Read a run request that came over HTTP.

    Raises:
        UsageError: an unknown flag or value, or one that only the command line may give.
    """
    request = RunRequest.combine(None, {_snake(name): value for name, value in flags.items()})
    given = request.model_fields_set
    for name in sorted(given & FORBIDDEN):
        _refuse(name, "is for the command line only")
    for name in NAMES:
        for text in getattr(request, name):
            if not NAME.fullmatch(text):
                _refuse(name, "takes names of known configs, never files")
    for entry in request.metrics:
        if any(not _is_name(text) for text in (entry.name, entry.method or "x")):
            _refuse("metrics", "takes names of known metrics, never files")
    for key in request.set:
        part = key.split(".")[1].lower() if "." in key else ""
        if part not in SETTABLE or any(piece.lower() == "adapter" for piece in key.split(".")):
            _refuse("set", f"cannot change {key}: addresses, credentials, calls and adapters stay as configured")
    for text in _prompts(request):
        if text.startswith("@") or not ("${" in text or "\n" in text):
            _refuse("prompts", "take a text with its placeholders, never the name of a file")
    return request


def _prompts(request: RunRequest) -> Iterator[str]:
    if request.answer_prompt is not None:
        yield request.answer_prompt
    for entry in request.judge_prompt:
        kind, equals, rest = entry.partition("=")
        yield rest if equals and "\n" not in kind and "$" not in kind else entry


def _is_name(text: str) -> bool:
    return not any(mark in text for mark in ("/", "\\", "..")) and not text.partition(":")[0].endswith(".py")


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).replace("-", "_").lower()


def _refuse(name: str, why: str) -> None:
    raise UsageError(f"{name} {why}", hint="start this run with bench run")
