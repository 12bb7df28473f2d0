"""The table of all commands of ``bench``.

Each command has a name, a line of help, and a function in ``bench.cli.commands``. The module of this function is
imported only when the command is called.

``bench --help`` prints ``help.txt``, because this is fast. ``python -m bench.cli.app`` writes this file from the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group, MissingArgumentError, UnusedCliTokensError, ValidationError

from bench.errors import UsageError

LOOK = Group("Look", sort_key=1)
RUN = Group("Run", sort_key=2)
READ = Group("Read results", sort_key=3)
PROVE = Group("Prove", sort_key=4)

COMMANDS: tuple[tuple[str, Group, str, str], ...] = (
    ("list", LOOK, "workspace:list_", "List benchmarks, providers, metrics, evaluators, models or runs."),
    ("describe", LOOK, "describe:describe", "Describe a benchmark, provider, metric or run."),
    ("validate", LOOK, "workspace:validate", "Check configs and their data."),
    ("schema", LOOK, "workspace:schema", "Print the JSON Schema of a kind of file, for editors."),
    ("new", LOOK, "workspace:new", "Write a config with comments to start from."),
    ("download", LOOK, "workspace:download", "Download and check the data of a benchmark."),
    ("doctor", LOOK, "doctor:doctor", "Test the calls that a run makes to a provider."),
    ("plan", RUN, "run_command:plan", "Show what a run would do, its cost and its time."),
    ("run", RUN, "run_command:run", "Measure providers on benchmarks."),
    ("eval", RUN, "run_command:eval_", "The same as bench run."),
    ("resume", RUN, "run_command:resume", "Continue a run; needs no other flag."),
    ("status", RUN, "status:status", "Show the progress of a run."),
    ("pause", RUN, "status:pause", "Stop a live run cleanly."),
    ("builds", RUN, "builds:builds_app", "Show and clear the memories that runs have ingested."),
    ("clean", RUN, "clean:clean", "Delete old runs, and clear namespaces that they left at providers."),
    ("retry", RUN, "rescore:retry", "Run the failed items again."),
    ("rescore", RUN, "rescore:rescore", "Judge or measure stored answers again."),
    ("extend", RUN, "rescore:extend", "Run more items in the same run."),
    ("fork", RUN, "rescore:fork", "Start a run from the memories, hits or answers of another run."),
    ("merge", RUN, "status:merge", "Merge runs over different ranges of items into one run."),
    ("results", READ, "results:results", "Show the results of a run."),
    ("failures", READ, "results:failures", "Show why items were lost."),
    ("compare", READ, "compare:compare", "Compare two or more providers or runs, with tests."),
    ("leaderboard", READ, "compare:leaderboard", "Show all comparable results in tables."),
    ("export", READ, "results:export", "Write the rows of a run as json, jsonl, csv, parquet or trec."),
    ("score", READ, "rescore:score", "Score rankings or answers of another tool."),
    ("review", READ, "review:review", "Let people label answers, and correct the score with them."),
    ("dispute", READ, "dispute:dispute", "Judge the same answers with several judges and prompts."),
    ("explore", READ, "serve:explore", "Open the web pages of this workspace, read-only."),
    ("serve", RUN, "serve:serve", "Serve the web pages, and start runs from them."),
    ("sign", PROVE, "receipts:sign", "Sign one receipt per job."),
    ("verify", PROVE, "verify:verify", "Check receipts offline."),
    ("reproduce", PROVE, "receipts:reproduce", "Repeat the run of a receipt and compare."),
    ("sheet", PROVE, "receipts:sheet", "List 19 facts about a result, and mark the missing ones."),
    ("diff", PROVE, "receipts:diff", "Show the differences of two receipts."),
    ("publish", PROVE, "publish:publish", "Append a receipt to the public log."),
    ("log", PROVE, "publish:log_app", "Check or cosign the public log, or mark a run as abandoned."),
    ("keys", PROVE, "keys:keys_app", "Create, trust, list, rotate and revoke signing keys."),
    ("completion", LOOK, "workspace:completion", "Print the shell completion for bash, zsh or fish."),
)


OTHER_NAMES = {
    "show": "results",
    "report": "results",
    "view": "explore",
    "ui": "explore",
    "watch": "status --watch",
    "ls": "list",
    "start": "run",
    "test": "doctor",
}
"""name of a command in other tools -> name of the ``bench`` command that does the same"""
POINTERS = {
    "init": "bench new provider NAME or bench new benchmark NAME writes a config; bench run needs no config",
    "login": "keys of services are environment variables: bench describe PROVIDER names them",
    "delete": "bench clean RUN_ID deletes a run",
    "cancel": "bench pause RUN_ID stops a run cleanly",
}

EXAMPLES: dict[str, tuple[str, str]] = {
    "list": ("bench list", "bench list runs"),
    "describe": ("bench describe locomo", "bench describe ndcg_at_10"),
    "validate": ("bench validate", "bench validate configs/providers/mine.yaml"),
    "schema": ("bench schema provider", "bench schema run > run.schema.json"),
    "new": ("bench new provider mine", "bench new benchmark support --from support.json"),
    "download": ("bench download locomo", "bench download locomo --from locomo10.json"),
    "doctor": ("bench doctor bm25", "bench doctor mine --json"),
    "plan": (
        "bench plan demo bm25",
        "bench plan --benchmarks locomo --providers mem0 zep --answering-model gpt-4o-mini",
    ),
    "run": ("bench run demo bm25", "bench run --benchmarks locomo --providers mem0 zep --sample 200 --max-cost 5"),
    "eval": ("bench eval demo bm25", "bench eval demo bm25 --limit 20"),
    "resume": ("bench resume RUN_ID", "bench resume RUN_ID --concurrency 4"),
    "status": ("bench status", "bench status RUN_ID --watch"),
    "pause": ("bench pause RUN_ID", "bench pause RUN_ID --json"),
    "builds": ("bench builds", "bench builds show RUN_ID --json"),
    "clean": ("bench clean --orphans", "bench clean --older-than 30d"),
    "retry": ("bench retry RUN_ID", "bench retry RUN_ID --phase answer"),
    "rescore": ("bench rescore RUN_ID --judge-model gpt-4o", "bench rescore RUN_ID --metrics accuracy token_f1"),
    "extend": ("bench extend RUN_ID --limit 200", "bench extend RUN_ID --end 500"),
    "fork": (
        "bench fork RUN_ID --from answer --model gpt-4o",
        "bench fork RUN_ID --from ingest -k 5 10 20",
    ),
    "merge": ("bench merge part-1 part-2 --into whole", "bench merge part-1 ../other/journal.sqlite --into whole"),
    "results": ("bench results", "bench results RUN_ID --by question_type"),
    "failures": ("bench failures", "bench failures RUN_ID --kind not_retrieved --provider bm25"),
    "compare": ("bench compare RUN_ID:bm25 RUN_ID:mine", "bench compare OLD_RUN NEW_RUN"),
    "leaderboard": ("bench leaderboard", "bench leaderboard --view type --benchmark locomo"),
    "export": ("bench export RUN_ID > rows.jsonl", "bench export --site public"),
    "score": ("bench score run.trec --benchmark demo", "bench score answers.jsonl --benchmark demo --json"),
    "review": ("bench review RUN_ID --n 50", "bench review RUN_ID --labels review.tsv"),
    "dispute": (
        "bench dispute RUN_ID --judge-model gpt-4o gpt-4o-mini --judge-prompt lenient.txt --judge-prompt strict.txt",
        "bench dispute theirs.json --benchmark locomo --judge-model gpt-4o gpt-4o-mini --judge-prompt a.txt b.txt",
    ),
    "explore": ("bench explore", "bench explore RUN_ID --port 3001"),
    "serve": ("bench serve", "bench serve --port 3001 --max-runs 2"),
    "sheet": ("bench sheet RUN_ID", "bench sheet receipt.json"),
    "sign": ("bench sign RUN_ID", "bench sign RUN_ID --provider bm25 --with-answers"),
    "verify": ("bench verify results/RUN_ID/receipts", "bench verify receipt.json --pubkey theirs.pub"),
    "reproduce": ("bench reproduce receipt.json", "bench reproduce receipt.json --sign"),
    "diff": ("bench diff a.json b.json", "bench diff OLD_RUN NEW_RUN"),
    "publish": ("bench publish receipt.json", "bench publish receipt.json --supersedes RECEIPT_ID --reason TEXT"),
    "log": ("bench log verify", "bench log tiles public"),
    "keys": ("bench keys new", "bench keys trust ../other/keys/default.pub"),
    "completion": ("bench completion bash", "bench completion zsh > ~/.zfunc/_bench"),
}


def build() -> App:
    """Return the parser of the command line. No module of a command is imported for it."""
    app = App(
        name="bench",
        help="Measure AI memory systems on memory benchmarks.",
        version_flags=(),
        suppress_keyboard_interrupt=False,
    )
    for name, group, place, text in COMMANDS:
        more = {} if place.endswith("_app") else {"help_epilogue": examples(name)}
        app.command(f"bench.cli.commands.{place}", name=name, help=text, group=group, **more)
    return app


def examples(name: str) -> str:
    """Return the examples at the end of the help of a command."""
    return "\n".join(["Examples:", "", *(f"    {line}" for line in EXAMPLES[name])])


def call(arguments: Sequence[str]) -> int:
    """Parse the arguments, run the command, and return its exit code.

    Raises:
        UsageError: the command, a flag or a value is unknown or missing.
    """
    arguments = _known_command(arguments)
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
        raise UsageError(_error_text(problem), hint=f"show the flags with: bench {arguments[0]} --help") from problem
    return code if isinstance(code, int) else 0


def _known_command(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments, beginning with a command of ``bench``.

    A command of another tool, such as ``ls``, is replaced by the ``bench`` command that does the same.

    Raises:
        UsageError: the first argument is neither.
    """
    from difflib import get_close_matches

    command, rest = arguments[0], arguments[1:]
    known = [name for name, *_ in COMMANDS]
    if command in known:
        return arguments
    if command in OTHER_NAMES:
        return [*OTHER_NAMES[command].split(), *rest]
    near = get_close_matches(command, known, n=1)
    hint = f'did you mean "bench {near[0]}"?' if near else "list the commands with: bench --help"
    raise UsageError(f'there is no command "{command}"', hint=POINTERS.get(command, hint))


def _error_text(problem: CycloptsError) -> str:
    if isinstance(problem, UnusedCliTokensError):
        words = " ".join(f'"{word}"' for word in problem.unused_tokens or ())
        return f"unexpected argument: {words}"
    if isinstance(problem, ValidationError) and problem.argument is not None:
        typed = next((token.keyword for token in problem.argument.tokens), None)
        return f"{typed or problem.argument.name} {problem.exception_message}"
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        return f"{problem.argument.name} is missing"
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
  --env-file FILE    file of environment variables to read instead of .env
  --display MODE     auto, live, plain, json or none
  --json             print only machine-readable output on stdout
  -q, -v             less output or more output on stderr
  --log-file FILE    write all events to FILE as JSON lines
  --no-color         no colors (also with NO_COLOR, CI or TERM=dumb)
  --traceback        show where an error was raised
  --version          print version, commit and extras

Exit codes of run and resume
  0   complete and valid, and gates such as --min-score passed; also: nothing left to do
  1   internal error (a bug)
  2   wrong flags, config or dataset, or a resume with changed settings; nothing was started
  3   stopped, can be resumed: budget, time, disk full, key refused, circuit breaker, paused
  4   finished, but a job is INVALID, a gate failed, or there is a regression
  5   verification failed
  6   the run is locked by another live process
  130, 143   stopped by SIGINT or SIGTERM, can be resumed
verify, reproduce, diff and log verify: 0 valid or same, 2 usage, 3 untrusted key, 4 superseded or
retracted, 5 invalid, 7 policy not met, 8 differs
"""


def text() -> str:
    """Return the text of ``bench --help``."""
    blocks = [HEAD]
    for group in (LOOK, RUN, READ, PROVE):
        rows = [f"  {name:<12} {line}" for name, where, _, line in COMMANDS if where is group]
        blocks.append("\n".join([str(group.name), *rows]) + "\n")
    return "\n".join([*blocks, FOOT])


if __name__ == "__main__":
    Path(__file__).with_name("help.txt").write_text(text(), encoding="utf-8")
