"""The table of commands: name, one line of help, and where the function lives. Each is imported when called.

Here too:

* The text of ``bench --help``, made from the table of commands.

It is stored in ``help.txt`` so that asking for help imports nothing; a test keeps the two equal.
``python -m bench.cli.app`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group

from bench.errors import UsageError

LOOK = Group("Look", sort_key=1)
RUN = Group("Run", sort_key=2)
READ = Group("Read results", sort_key=3)
PROVE = Group("Prove", sort_key=4)

COMMANDS: tuple[tuple[str, Group, str, str], ...] = (
    ("list", LOOK, "bench.cli.workspace:list_", "Benchmarks, providers, metrics, evaluators, models or runs."),
    ("describe", LOOK, "bench.cli.describe:describe", "What a benchmark, provider, metric or run is and needs."),
    ("validate", LOOK, "bench.cli.workspace:validate", "Check configs and the data they name."),
    ("schema", LOOK, "bench.cli.workspace:schema", "JSON Schema of a file kind, for editors."),
    ("new", LOOK, "bench.cli.workspace:new", "A commented config to start from."),
    ("download", LOOK, "bench.cli.workspace:download", "Fetch a benchmark's data, checked and resumable."),
    ("doctor", LOOK, "bench.cli.doctor:doctor", "Live contract test of a provider."),
    ("plan", RUN, "bench.cli.run_command:plan", "What a run would do, cost and take; calls nothing."),
    ("run", RUN, "bench.cli.run_command:run", "Measure providers on benchmarks."),
    ("eval", RUN, "bench.cli.run_command:eval_", "The same as run; takes BENCHMARK PROVIDER too."),
    ("resume", RUN, "bench.cli.run_command:resume", "Go on with a run; needs no other flag."),
    ("status", RUN, "bench.cli.status:status", "How far a run is, also one of another process."),
    ("pause", RUN, "bench.cli.status:pause", "Ask a live run to stop cleanly."),
    ("clean", RUN, "bench.cli.clean:clean", "Clear left namespaces, delete old runs."),
    ("retry", RUN, "bench.cli.rescore:retry", "Run again what failed, nothing else."),
    ("rescore", RUN, "bench.cli.rescore:rescore", "Judge or measure stored answers anew."),
    ("fork", RUN, "bench.cli.rescore:fork", "A new run on stored search results or answers."),
    ("merge", RUN, "bench.cli.status:merge", "Join the ranges of one plan."),
    ("results", READ, "bench.cli.results:results", "The numbers of a run."),
    ("failures", READ, "bench.cli.results:failures", "Why each lost item was lost."),
    ("compare", READ, "bench.cli.results:compare", "Which of two is better, and how sure."),
    ("leaderboard", READ, "bench.cli.results:leaderboard", "All comparable results side by side."),
    ("export", READ, "bench.cli.results:export", "Rows as json, jsonl, csv, parquet or trec."),
    ("score", READ, "bench.cli.score:score", "Score somebody else's ranking or answers."),
    ("explore", READ, "bench.cli.serve:explore", "The web pages of this workspace, read-only."),
    ("serve", RUN, "bench.cli.serve:serve", "The web pages as a service that also runs."),
    ("sign", PROVE, "bench.cli.receipts:sign", "One signed receipt a job."),
    ("verify", PROVE, "bench.cli.verify:verify", "Check receipts offline."),
    ("reproduce", PROVE, "bench.cli.receipts:reproduce", "Run again what a receipt states and compare."),
    ("sheet", PROVE, "bench.cli.sheet:sheet", "The 19 facts behind a result, and which are missing."),
    ("diff", PROVE, "bench.cli.receipts:diff", "What differs between two receipts."),
    ("publish", PROVE, "bench.cli.publish:publish", "Append a receipt to the public log."),
    ("log", PROVE, "bench.cli.publish:log_app", "Check the public log, or abandon a registered run."),
    ("keys", PROVE, "bench.cli.keys:keys_app", "Make, list, rotate and revoke signing keys."),
    ("completion", LOOK, "bench.cli.workspace:completion", "Shell completion for bash, zsh or fish."),
)


def build() -> App:
    """Assemble the parser; no command module is imported."""
    app = App(
        name="bench",
        help="Measure AI memory systems on memory benchmarks.",
        version_flags=(),
        suppress_keyboard_interrupt=False,
    )
    for name, group, place, text in COMMANDS:
        app.command(place, name=name, help=text, group=group)
    return app


def call(arguments: Sequence[str]) -> int:
    """Parse and run one command; returns its exit code.

    Raises:
        UsageError: the command, a flag or a value is unknown or missing.
    """
    _refuse_unknown(arguments[0])
    app = build()
    try:
        code = app(
            list(arguments),
            exit_on_error=False,
            print_error=False,
            help_on_error=False,
            result_action="return_value",
        )
    except CycloptsError as problem:
        raise UsageError(_text(problem), hint=f"bench {arguments[0]} --help shows the flags") from problem
    return code if isinstance(code, int) else 0


def _refuse_unknown(command: str) -> None:
    from difflib import get_close_matches

    known = [name for name, *_ in COMMANDS]
    if command not in known:
        near = get_close_matches(command, known, n=1)
        hint = f'did you mean "bench {near[0]}"?' if near else "bench --help lists the commands"
        raise UsageError(f'there is no command "{command}"', hint=hint)


def _text(problem: CycloptsError) -> str:
    text = " ".join(str(problem).split())
    return text or type(problem).__name__


HEAD = """\
bench measures AI memory systems on memory benchmarks.

usage: bench COMMAND [flags]        bench COMMAND --help shows a command's flags

first: bench run                    measures the built-in providers on the embedded benchmark
"""

FOOT = """\
Flags of every command, before or after it
  --workspace DIR    folder with configs, datasets, checkpoints, results (default: .)
  --env-file FILE    variables to read instead of .env
  --display MODE     auto, live, plain, json or none
  --json             machine-readable output on stdout, nothing else there
  -q, -v             less, more on stderr
  --log-file FILE    all events as JSON lines
  --no-color         no colours (NO_COLOR, CI and TERM=dumb are respected too)
  --traceback        show where an error was raised
  --version          print the version

Exit codes of run and resume
  0   complete, valid, gates passed; also: nothing left to do
  1   internal error (a bug)
  2   usage, configuration, dataset or identity error; nothing was started
  3   stopped but resumable: budget, time, disk full, refused, circuit breaker, paused
  4   finished but not good: a job INVALID, a gate failed, a regression
  5   verification failed
  6   the run is locked by another live process
  130, 143   stopped by SIGINT or SIGTERM, resumable
verify, reproduce, diff and log verify: 0 valid or same, 2 usage, 3 untrusted key, 4 superseded or
retracted, 5 invalid, 7 policy not met, 8 differs
"""


def text() -> str:
    """The whole page."""
    blocks = [HEAD]
    for group in (LOOK, RUN, READ, PROVE):
        rows = [f"  {name:<12} {line}" for name, where, _, line in COMMANDS if where is group]
        blocks.append("\n".join([str(group.name), *rows]) + "\n")
    return "\n".join([*blocks, FOOT])


if __name__ == "__main__":
    Path(__file__).with_name("help.txt").write_text(text(), encoding="utf-8")
