"""``bench run``, ``eval``, ``resume``, ``plan``: make a plan from the flags, run it, and print the report.

At the end of a run, this module also signs the receipts, logs the event ``done`` and runs the command of ``--on-end``.
It checks ``--min-score METRIC=VALUE``, a quality gate for CI. A job that has no value of the metric misses the gate.

Example::

    check_gates(plan)                   # UsageError before anything is called
    missed_gates(plan, report)          # a line for each job below its gate
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.cli import console
from bench.cli import signals as interrupts
from bench.cli.flags import RunFlags, given_flags
from bench.cli.global_flags import command, current
from bench.errors import ConfigError, DiskFull, UsageError, is_disk_full
from bench.visible_text import counted, money_text

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine import Outcome
    from bench.engine.run_context import RunScope
    from bench.journal import RunMeta
    from bench.plan import Plan
    from bench.report import Report
    from bench.settings import Environment
    from bench.untyped_values import Json


NO_EFFECT = " has no effect: "


def show_results(outcome: Outcome, report: Report, folder: Path, texts: Sequence[str]) -> None:
    from bench.cli.commands.results import show_outcome
    from bench.report.tables import matrix, overview

    if outcome.message:
        console.note(outcome.message if outcome.status == "complete" else f"{outcome.status}: {outcome.message}")
    show_outcome(texts)
    console.grids([*overview(report, width=console.width()), *matrix(report)])
    if outcome.cost_usd != "0" or outcome.unknown_costs:
        unknown = (
            f" or more ({counted(outcome.unknown_costs, 'call(|s) (has|have)')} no known price)"
            if outcome.unknown_costs
            else ""
        )
        console.note(f"cost USD {money_text(Decimal(outcome.cost_usd))}{unknown}")
    console.line(f"results: {folder}")
    for text in _next_steps(outcome, report):
        console.note(f"next: {text}")


def _next_steps(outcome: Outcome, report: Report) -> list[str]:
    if outcome.resume is not None:
        return [command(outcome.resume)]
    run = outcome.run_id
    steps = [(f"bench explore {run}", "web pages with every question, its hits and its answer")]
    if any(job.n_scored for job in report.jobs):
        steps.append((f"bench failures {run}", "why each lost item was lost"))
    if len(report.jobs) > 1:
        steps.append((f"bench compare {run}", "which differences are larger than chance"))
    return [f"{command(words)}  ({purpose})" for words, purpose in steps]


def done_event(outcome: Outcome, report: Report, code: int) -> Json:
    from bench.report.results_document import done_job

    return {
        "event": "done",
        "run_id": outcome.run_id,
        "status": str(outcome.status),
        "exit_code": code,
        "message": outcome.message,
        "jobs": [done_job(job) for job in report.jobs],
        "cost_usd": outcome.cost_usd,
        "cost_unknown_calls": outcome.unknown_costs,
        "resume": command(outcome.resume) if outcome.resume else None,
    }


def sign(plan: Plan, outcome: Outcome) -> int:
    """Sign the receipts of a run in a child process, and return the exit code of the child process.

    So the process that runs providers never reads the signing key.
    """
    words = [sys.executable, "-m", "bench", "--workspace", str(plan.workspace), "sign", outcome.run_id]
    if (env_file := current.get().env_file) is not None:
        words += ["--env-file", str(env_file)]
    if plan.request.key:
        words += ["--key", plan.request.key]
    return subprocess.run(words, stdout=_child_stdout(), check=False).returncode  # noqa: S603  our own program


def _child_stdout() -> int | None:
    """Return the file descriptor for the output of a child process: stderr with ``--json``, or None for stdout."""
    return sys.stderr.fileno() if current.get().json else None


def on_end(plan: Plan, outcome: Outcome, code: int) -> None:
    """Run the command of ``--on-end``, with the run id and the exit code in its environment.

    If the command fails, only a note is printed.
    """
    import os

    if plan.request.on_end is None:
        return
    variables = {**os.environ, "BENCH_RUN_ID": outcome.run_id, "BENCH_EXIT_CODE": str(code)}
    words: Sequence[str] = shlex.split(plan.request.on_end)
    try:
        done = subprocess.run(words, env=variables, stdout=_child_stdout(), check=False)  # noqa: S603  the user's own
    except OSError as error:
        console.note(f"--on-end: {words[0]}: {error.strerror}")
        return
    if done.returncode:
        console.note(f"--on-end: {words[0]} ended with exit code {done.returncode}")


def check_gates(plan: Plan) -> None:
    """Check the ``--min-score`` gates of a plan.

    Raises:
        UsageError: no benchmark of the run computes the metric of a gate, or the value of a gate is not a number.
    """
    from bench.metrics.protocol import or_list, similar_names

    known = {_canonical_metric(metric.name) for lane in plan.lanes for metric in lane.benchmark.scoring.metrics}
    for name, wanted in plan.request.min_score.items():
        if _canonical_metric(name) not in known:
            close = similar_names(name, known)
            raise UsageError(
                f"--min-score {name}: no benchmark of this run computes this metric",
                hint=f"did you mean {or_list(close)}?" if close else "add the metric with --metrics",
            )
        if not _is_number(wanted):
            raise UsageError(f"--min-score {name}={wanted}: expected a number")


def _is_number(wanted: object) -> bool:
    """Return True if a value is a finite number. NaN is refused, because no score could miss a gate of NaN."""
    try:
        return isfinite(float(str(wanted)))
    except ValueError:
        return False


def _canonical_metric(metric: str) -> str:
    """Return the main name of a built-in metric that has several names; return any other name unchanged."""
    from bench.errors import UnknownMetric
    from bench.metrics import resolve

    try:
        return resolve(metric).name
    except UnknownMetric:
        return metric


def missed_gates(plan: Plan, report: Report) -> list[str]:
    """Return one text for each job that misses a ``--min-score`` gate.

    A job that is INVALID or has no value of the metric misses the gate.
    """
    missed = []
    for name, wanted in plan.request.min_score.items():
        metric = _canonical_metric(name)
        for job in report.jobs:
            named = {_canonical_metric(one): measured for one, measured in job.metrics.items()}
            found = named.get(metric) if job.valid else None
            value = found.value if found is not None else None
            if value is None or value < float(str(wanted)):
                who = f"{job.record.benchmark} x {job.record.provider}"
                missed.append(f"gate failed: {who}: {metric} = {value}, expected at least {wanted}")
    return missed


GATE_FAILED = 4


def run(*names: str, flags: RunFlags | None = None) -> int:
    """Measure providers on benchmarks. Default: the demo and the built-in providers that need no key.

    Parameters
    ----------
    names
        BENCHMARK PROVIDER ...: the same as --benchmarks and --providers.
    """
    flags = _with_names(flags or RunFlags(), names)
    if flags.resume is not None:
        if names:
            raise UsageError(
                f"--resume cannot be used with the name {names[0]}",
                hint="remove the name: a run resumes with its original settings",
            )
        return resume(flags.resume, flags=flags)
    if flags.dry_run:
        return plan(flags=flags)
    from bench.plan import make_plan

    catalog, environment = load_workspace()
    request = _request(catalog, flags)
    if request.download:
        _download_missing(catalog, request)
    planned = make_plan(catalog, request, _for_planning(environment, request.cluster))
    return execute_plan(planned, environment, resume=None)


def eval_(*names: str, flags: RunFlags | None = None) -> int:
    """The same as bench run.

    Parameters
    ----------
    names
        BENCHMARK PROVIDER ...: the same as --benchmarks and --providers.
    """
    return run(*names, flags=flags)


def resume(run_id: str, /, *, flags: RunFlags | None = None) -> int:
    """Continue a run. The plan is read from the journal; flags that do not change results can be different.

    Parameters
    ----------
    run_id
        A run of this workspace, or a path to its journal.
    """
    from bench.engine import resumed_plan
    from bench.journal import Reader
    from bench.journal.paths import find_run

    if flags is not None and flags.dry_run:
        raise UsageError(
            "--dry-run cannot be used when a run is resumed", hint=f"show the pending items with: bench status {run_id}"
        )
    catalog, environment = load_workspace()
    settings = requested_settings(catalog, flags or RunFlags())

    async def planned() -> tuple[Path, Plan]:
        async with Reader.open(find_run(catalog.workspace, run_id)) as reader:
            cluster = settings.get("cluster", reader.meta.request.get("cluster"))
        ahead = _for_planning(environment, cluster)
        return await resumed_plan(run_id, catalog=catalog, flags=settings, environment=ahead)

    folder, plan = anyio.run(planned)
    return execute_plan(plan, environment, resume=folder)


def plan(*names: str, detect: float | None = None, flags: RunFlags | None = None) -> int:
    """Show what a run would do: items, calls, tokens, cost, shortest possible time. No call is made.

    Parameters
    ----------
    names
        BENCHMARK PROVIDER ...: the same as --benchmarks and --providers.
    detect
        Also show how many questions are needed to detect this difference, for example 0.05 for five points.
    """
    from bench.cli.plan_display import show_plan
    from bench.plan import make_plan
    from bench.plan.provider import require_variables

    flags = _with_names(flags or RunFlags(), names)
    if detect is not None and not 0 < detect < 1:
        raise UsageError(
            f"--detect {detect} is not valid: expected a share between 0 and 1",
            hint="write a fraction: 0.05 means five percentage points",
        )
    catalog, environment = load_workspace()
    ahead = environment.dry_run()
    made = make_plan(catalog, _request(catalog, flags), ahead)
    require_variables(made.lanes, ahead)
    check_gates(made)
    show_plan(made, flags, unset=ahead.unset, detect=detect)
    return 0


# --------------------------------------------------------------------------- parts


def load_workspace() -> tuple[Catalog, Environment]:
    """Load the configs and the environment variables of the workspace, and configure logging."""
    flags = current.get()
    flags.configure_log()
    environment = flags.environment()
    if environment.dotenv is not None:
        console.note(f"variables from {environment.dotenv} (variables of the environment take precedence)")
    return flags.catalog(), environment


def _with_names(flags: RunFlags, names: Sequence[str]) -> RunFlags:
    """Return the flags with the names that were given without a flag: first the benchmark, then the providers.

    Raises:
        UsageError: the same names are also given with --benchmarks or --providers.
    """
    if not names:
        return flags
    benchmark, *providers = names
    if flags.benchmarks is not None or (providers and flags.providers is not None):
        flag, name = ("--benchmarks", benchmark) if flags.benchmarks is not None else ("--providers", providers[0])
        raise UsageError(
            f'the name "{name}" without a flag cannot be combined with {flag}',
            hint="write BENCHMARK PROVIDER without flags, or use --benchmarks and --providers for all names",
        )
    return replace(flags, benchmarks=[benchmark], providers=providers or flags.providers)


def _for_planning(environment: Environment, cluster: object) -> Environment:
    """Return the environment variables to use for planning.

    If workers on other machines execute the run, a missing secret is not an error, because the workers have the
    secrets.
    """
    is_local = cluster is None or str(cluster).startswith("local:")
    return environment if is_local else environment.dry_run()


def requested_settings(catalog: Catalog, flags: RunFlags) -> Json:
    """Return the settings of the run file. A flag on the command line replaces the setting of the same name.

    Raises:
        UsageError: a list flag has no value, or the run file does not exist.
        ConfigError: the run file is not valid.
    """
    from bench.config.file import Source, load
    from bench.config.run import RunRequest
    from bench.plan.cost_estimate import unknown_names

    if flags.config is None:
        return given_flags(flags)
    path = flags.config if flags.config.is_file() else _run_file(catalog, str(flags.config))
    source = Source.read(path)
    request = load(source, RunRequest)
    for name, problem in unknown_names(catalog, request.prices, [entry.name for entry in catalog.models()]):
        raise ConfigError(problem.message, where=source.place(("prices", name)), hint=problem.hint)
    return request.model_dump(exclude_unset=True) | given_flags(flags)


def _request(catalog: Catalog, flags: RunFlags) -> RunRequest:
    from bench.config.run import RunRequest

    return RunRequest.combine(None, requested_settings(catalog, flags))


def _run_file(catalog: Catalog, name: str) -> Path:
    if "/" in name or name.endswith((".yaml", ".yml")):
        shipped = ", ".join(entry.name for entry in catalog.runs() if not entry.shadowed) or "none"
        folder = catalog.workspace / "configs" / "runs"
        raise UsageError(
            f"--config {name}: no such file",
            hint=(
                f"give the path of an existing file, the name of a run file in {folder}, or the name of a "
                f"shipped run file: {shipped}"
            ),
        )
    return catalog.find("runs", name).path


def _download_missing(catalog: Catalog, request: RunRequest) -> None:
    """Download the datasets of the requested benchmarks if they are missing."""
    from bench.cli.commands.workspace import download_benchmark

    for name in request.benchmarks:
        download_benchmark(catalog, name, source=None)


def execute_plan(plan: Plan, environment: Environment, *, resume: Path | None, scope: RunScope | None = None) -> int:
    """Execute a plan, write and print the report, and return the exit code."""
    again = "give the command again" if resume is None else command(f"bench resume {resume.name}")
    interrupts.stage("no model or provider was called yet", hint=again)
    check_gates(plan)
    if plan.request.sign:
        _check_key(plan, environment)
    outcome, report, folder, texts = anyio.run(_execute, plan, environment, resume, scope)
    failed_gates = missed_gates(plan, report)
    code = outcome.exit_code or (GATE_FAILED if failed_gates else 0)
    if current.get().json:
        console.json_line(done_event(outcome, report, code))
    else:
        show_results(outcome, report, folder, texts)
        for text in plan.notes:
            if NO_EFFECT in text:  # above the tables it is out of sight when the run has ended
                console.note(f"note: {text}")
    for text in failed_gates:
        console.note(text)
    if plan.request.sign and code == 0:
        code = sign(plan, outcome)
    on_end(plan, outcome, code)
    return code


def _check_key(plan: Plan, environment: Environment) -> None:
    """Check that the run can be signed, before any call costs money. A child process reads the signing key."""
    from bench.receipt.signing.keyring import check_in_child

    fingerprint = check_in_child(plan.workspace, plan.request.key, environment)
    console.note(f"the receipts will be signed with {fingerprint}")


def _announce(plan: Plan, environment: Environment, meta: RunMeta) -> None:
    """Announce the run in the public log before its first call. A child process reads the key of the log."""
    from bench.receipt.log.publish import announce_in_child, announcement_of

    index = announce_in_child(plan.workspace, announcement_of(plan, meta), environment)
    console.note(f"announced in the public log at index {index}")


async def _execute(
    plan: Plan, environment: Environment, resume: Path | None, scope: RunScope | None
) -> tuple[Outcome, Report, Path, list[str]]:
    from bench import events
    from bench.cli.run_display import display_for, follow
    from bench.engine import execute
    from bench.engine.run import results_folder

    display = display_for(current.get())
    for text in plan.notes:
        console.note(text)
    announce = partial(_announce, plan, environment) if plan.request.publishable and resume is None else None
    async with follow(display):
        if plan.is_spread and scope is None:
            from bench.cluster import execute_on_cluster

            outcome = await execute_on_cluster(
                plan, environment=environment, observer=display, resume=resume, announce=announce
            )
        else:
            outcome = await execute(
                plan, environment=environment, observer=display, resume=resume, scope=scope, announce=announce
            )
    from bench.journal import Reader
    from bench.journal.queries import disk_full_text
    from bench.report import fold
    from bench.report.outcome_text import outcome_texts
    from bench.report.result_files import publish
    from bench.report.summary import store_report

    interrupts.listen()
    left = f"run {outcome.run_id} is {outcome.status}, but its report is not complete"
    interrupts.stage(left, hint=command(outcome.resume or f"bench results {outcome.run_id}"))
    text = "the disk is full; every finished phase is stored"
    try:
        async with Reader.open(outcome.folder) as reader:
            text = disk_full_text(await reader.counts())
            report = await fold(reader)
            folder = await publish(reader, report, results_folder(plan))
            await store_report(reader, report, plan.workspace / "results")
            texts = [] if current.get().json else await outcome_texts(reader, report)
    except (OSError, DiskFull) as error:
        if not isinstance(error, DiskFull) and not is_disk_full(error):
            raise
        raise DiskFull(
            text, hint=f"make room, then {command(outcome.resume or f'bench results {outcome.run_id}')}"
        ) from error
    events.close()
    return outcome, report, folder, texts
