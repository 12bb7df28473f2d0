"""The text of ``bench --help``, made from the table of commands.

It is stored in ``help.txt`` so that asking for help imports nothing; a test keeps the two equal.
``python -m bench.cli.helptext`` writes it anew.
"""

from __future__ import annotations

from pathlib import Path

from bench.cli.app import COMMANDS, LOOK, PROVE, READ, RUN

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
