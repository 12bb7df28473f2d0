"""``bench list``, ``validate``, ``schema``, ``new``, ``download``: work with the files of the workspace.

``bench new`` writes a valid config with comments. It never overwrites a config.

Example::

    made = write_new("provider", "mine", data=None, workspace=Path("."))
    made.path, made.guesses             # configs/providers/mine.yaml, ()
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
from cyclopts import Parameter

from bench.cli import console
from bench.cli.commands import list as listing
from bench.cli.flags import Many
from bench.cli.global_flags import command, current
from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.datasets.rows.download import DownloadResult


def list_(
    kind: Literal["benchmarks", "providers", "metrics", "evaluators", "models", "runs"] | None = None,
    *,
    tags: Many = None,
) -> int:
    """List benchmarks, providers, metrics, evaluators, models or runs.

    Parameters
    ----------
    kind
        What to list. Default: benchmarks and providers.
    tags
        Only entries with all of these tags.
    """
    return listing.main([*([kind] if kind else []), *(["--tags", ",".join(tags)] if tags else [])])


def validate(paths: list[Path] | None = None, /) -> int:
    """Check configs and their data. Default: every config of the workspace and every shipped config.

    Parameters
    ----------
    paths
        Config files, folders of them, or names of configs.
    """
    from bench.cli.commands.validate import check_all

    report = check_all(current.get().catalog(), paths or [], current.get().environment())
    if current.get().json:
        console.json_value(report.as_json())
    else:
        for problem in report.problems:
            console.note(f"error: {problem}\nhint: {problem.hint}")
        for note in report.folded_notes():
            console.note(f"note: {note}")
        if report.of_shipped:
            console.note("note: list all notes of one config with: bench validate FILE")
        configs = "1 config" if report.checked == 1 else f"{report.checked} configs"
        console.line(f"{configs} checked, {report.broken} with errors")
    return 2 if report.problems else 0


def schema(kind: Literal["benchmark", "manifest", "provider", "run", "receipt", "event"], /) -> int:
    """Print the JSON Schema of a kind of file. Editors use it to complete and check YAML.

    Parameters
    ----------
    kind
        The kind of file; event: a line of bench run --json.
    """
    from bench.cli.commands.schema import editors_schema

    console.json_value(editors_schema(kind))
    return 0


def new(
    kind: Literal["provider", "benchmark"],
    name: str,
    /,
    *,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
) -> int:
    """Write a valid config with comments into configs/ of the workspace.

    Parameters
    ----------
    kind
        The kind of config.
    name
        Name of the config: lower case letters, digits, dots, dashes and underscores.
    from_
        For a benchmark: a data file, or a folder of data files, from which the keys of the config are guessed.
    """

    made = write_new(kind, name, data=from_, workspace=current.get().workspace)
    next_step = command(f"bench validate {made.path}")
    if current.get().json:
        console.json_value(
            {
                "path": str(made.path),
                "mapped": list(made.mapped),
                "guesses": list(made.guesses),
                "unmapped": list(made.unmapped),
                "next": next_step,
            }
        )
    else:
        console.line(str(made.path))
        if made.mapped:
            console.note(f"mapped: {', '.join(made.mapped)}")
        for text in made.guesses:
            console.note(f"guessed: {text}; correct the file if this is wrong")
        for text in made.unmapped:
            console.note(f"not mapped: {text}")
        console.note(f"next: {next_step}")
    return 0


def download(benchmark: str, /, *, from_: Annotated[str | None, Parameter(name="--from")] = None) -> int:
    """Download the data of a benchmark and check its sha256. An interrupted download resumes.

    Parameters
    ----------
    benchmark
        A name of bench list.
    from_
        A file or URL to use instead of the benchmark's own address.
    """
    current.get().configure_log()
    found = download_benchmark(current.get().catalog(), benchmark, source=from_)
    if current.get().json:
        facts = {"state": found.state, "path": str(found.path), "bytes": found.size, "sha256": found.sha256}
        console.json_value({"benchmark": benchmark, **facts})
    return 0


def download_benchmark(catalog: Catalog, name: str, *, source: str | None) -> DownloadResult:
    """Download the dataset of a benchmark if it is missing, and print its state; ``source`` is a file or URL."""
    from bench.datasets.rows.download import download as bring
    from bench.datasets.rows.file_transport import aiohttp_fetch

    environment = current.get().environment()
    config = catalog.benchmark(name)

    async def download_data() -> DownloadResult:
        import aiohttp

        async with aiohttp.ClientSession(trust_env=True) as session:
            fetch = aiohttp_fetch(session)
            return await bring(
                config,
                catalog.workspace,
                fetch=fetch,
                environment=environment.get,
                source=source,
                progress=_DownloadProgress(),
            )

    console.note(f"{name}: license {config.license or 'unknown'}, from {source or config.source or config.data.path}")
    found = anyio.run(download_data)
    write = console.note if current.get().json else console.line
    write(f"{name}: {found.state}, {found.path} ({found.size:,} bytes, sha256 {found.sha256})")
    return found


class _DownloadProgress:
    """The progress of a download on stderr: one line per 10%, or one line per 100 MB if the size is unknown."""

    def __init__(self) -> None:
        self._tenth = -1

    def __call__(self, done: int, total: int | None) -> None:
        tenth = done * 10 // total if total else done // 100_000_000
        if tenth != self._tenth:
            self._tenth = tenth
            console.note(f"{done:,} of {total:,} bytes" if total else f"{done:,} bytes")


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the shell completion. Write it to a file that your shell reads, or pass it to eval.

    Parameters
    ----------
    shell
        Your shell.
    """
    from bench.cli.app import build

    console.raw(f"{build().generate_completion(shell=shell, prog_name='bench').rstrip()}\n\n{REGISTERED[shell]}\n")
    return 0


REGISTERED = {
    "bash": "complete -F _bench memorybench",
    "zsh": """\
if [[ $funcstack[1] == _bench ]]; then
  _cyclopts_bench "$@"                # a file of fpath
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _cyclopts_bench bench memorybench
fi""",
    "fish": "complete -c memorybench -w bench",
}
"""last lines of each completion script, which register the completion for both names of the program"""


LONGEST_VARIABLE = 40
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

PROVIDER = """# A memory system behind HTTP: what is sent, and where the answers are. See docs/add-a-provider.md
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
      when: "$.when"                # the date of a hit; without this field, each hit gets the date of its memory
  clear:
    method: DELETE
    path: /namespaces/${{runTag}}
    treat_as_ok: [404]

# Without a status call, a search for a written memory shows when the service is ready. With a status call:
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
class WrittenConfig:
    """The path of a new config, with the values that were guessed and the fields of the data."""

    path: Path
    guesses: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()
    """fields of the data that the new config does not use"""
    mapped: tuple[str, ...] = ()
    """keys of the new config, each with the field of the data that it reads"""


SCHEMA_LINE = "# yaml-language-server: $schema=../schemas/{kind}.json\n"
"""first line of a config, by which an editor finds the schema of the file"""


def write_new(
    kind: Literal["provider", "benchmark"], name: str, *, data: Path | None, workspace: Path
) -> WrittenConfig:
    """Write a new config and its schema; for a benchmark, write data files too.

    Raises:
        UsageError: the name is invalid, ``data`` is given for a provider, or a file exists already.
        DataError: ``data`` cannot be read.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f'"{name}" is not a valid name', hint="use lower case letters, digits, dots, dashes and underscores"
        )
    from bench.datasets.draft.config_guess import quoted_name

    guesses: tuple[str, ...] = ()
    unmapped: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    if kind == "provider" and data is not None:
        raise UsageError("--from is only for a benchmark, not for a provider", hint="remove --from")
    if kind == "provider":
        text = PROVIDER.format(quoted=quoted_name(name), variable=_variable_prefix(name))
        files = [(workspace / "configs" / "providers" / f"{name}.yaml", text)]
    else:
        from bench.datasets.draft.config_draft import draft_benchmark

        started = draft_benchmark(name, data, workspace)
        files, guesses, unmapped, mapped = list(started.files), started.guesses, started.unmapped, started.mapped
    for path, _ in files:
        if path.exists():
            raise UsageError(f"{path} exists already", hint="choose another name, or move this file away")
    files[0] = (files[0][0], SCHEMA_LINE.format(kind=kind) + files[0][1])
    for path, text in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _write_schema(kind, workspace)
    return WrittenConfig(path=files[0][0], guesses=guesses, unmapped=unmapped, mapped=mapped)


def _write_schema(kind: Literal["provider", "benchmark"], workspace: Path) -> None:
    """Write the schema that the first line of a new config names. An older schema file is replaced."""
    path = workspace / "configs" / "schemas" / f"{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_schema_text(kind), encoding="utf-8")


@cache
def _schema_text(kind: Literal["provider", "benchmark"]) -> str:
    from bench.cli.commands.schema import editors_schema

    return json.dumps(editors_schema(kind), indent=1) + "\n"


def _variable_prefix(name: str) -> str:
    """Return the prefix of a provider's environment variables, made from the provider's name.

    The prefix begins with a letter.
    """
    words = re.sub(r"[^A-Z0-9]", "_", name.upper())[:LONGEST_VARIABLE]
    return words if words[0].isalpha() else f"P_{words}"
