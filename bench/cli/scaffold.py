"""``bench new``: a commented, valid config to start from. Nothing is ever overwritten.

Example::

    made = write_new("provider", "mine", data=None, workspace=Path("."))
    made.path, made.guesses             # configs/providers/mine.yaml, ()
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.errors import UsageError

LONGEST_VARIABLE = 40
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

PROVIDER = """# A memory system behind HTTP: what is sent, and where the answers stand. See docs/add-a-provider.md
apiVersion: bench/v1
name: {quoted}
displayName: {quoted}
description: One sentence about it
type: hosted

connection:
  baseUrl: "${{{variable}_URL:-http://127.0.0.1:8080}}"
  timeout: 30000                  # ms, one attempt

auth:
  type: bearer                    # or token, apikey, basic, query, none
  envVar: {variable}_API_KEY      # the name of the variable, never the key
  optional: true

endpoints:
  add:
    method: POST
    path: /memories
    body:
      content: "$.content"
      namespace: "$.runTag"
      id: "$.id"
      when: {{$omit_if_null: "$.when"}}
      metadata: "$.metadata"
  search:
    method: POST
    path: /search
    body: {{query: "$.query", namespace: "$.runTag", limit: "$.k"}}
    response:
      results: "$.results"
      contentField: "$.content"
      scoreField: "$.score"
      id_from: [{{metadata: bench_id}}, {{field: "$.id"}}]
      when: "$.when"                # the date that comes back; without it each hit gets that of its memory
  clear:
    method: DELETE
    path: /namespaces/${{runTag}}
    treat_as_ok: [404]

# Without a status call readiness is seen by searching for something that was written. With one:
# wait:
#   request: {{method: GET, path: "/jobs/${{jobId}}"}}
#   until: {{"$.status": [done]}}
#   fail_on: {{"$.status": [failed]}}
wait: sentinel

limits:
  add: {{concurrency: 4}}
  search: {{concurrency: 8}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where the new config lies, and what of it was guessed without a sign in the data."""

    path: Path
    guesses: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()
    """what the data has and the new config does not read"""


def write_new(kind: Literal["provider", "benchmark"], name: str, *, data: Path | None, workspace: Path) -> Written:
    """Write the files.

    Raises:
        UsageError: a bad name, data for a provider, or a file that is there already.
        DataError: DATA cannot be read.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f'"{name}" is no name', hint="lower case letters, digits, dots, dashes and underscores")
    from bench.datasets.guess import quoted

    guesses: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()
    if kind == "provider" and data is not None:
        raise UsageError("--from takes the data of a benchmark", hint="leave it out for a provider")
    if kind == "provider":
        text = PROVIDER.format(quoted=quoted(name), variable=_variable(name))
        files = [(workspace / "configs" / "providers" / f"{name}.yaml", text)]
    else:
        from bench.datasets.starting import new_benchmark

        started = new_benchmark(name, data, workspace)
        files, guesses, unmapped = list(started.files), started.guesses, started.unmapped
    for path, _ in files:
        if path.exists():
            raise UsageError(f"{path} exists already", hint="choose another name, or move it away")
    for path, text in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Written(path=files[0][0], guesses=guesses, unmapped=unmapped)


def _variable(name: str) -> str:
    """The beginning of a provider's variables: a letter first, and short enough for a name."""
    words = re.sub(r"[^A-Z0-9]", "_", name.upper())[:LONGEST_VARIABLE]
    return words if words[0].isalpha() else f"P_{words}"
