"""``bench run``, ``eval``, ``resume``, ``plan``: flags -> plan -> engine -> report. Nothing else lives here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.cli import console, interrupts
from bench.cli.ending import done_event, on_end, show, sign
from bench.cli.flags import RunFlags, given
from bench.cli.gates import check_gates, missed_gates
from bench.cli.global_flags import command, current
from bench.errors import ConfigError, DiskFull, UsageError, is_disk_full

if TYPE_CHECKING:
    from bench.config.catalog import Catalog
    from bench.config.run import RunRequest
    from bench.engine.errand import Errand
    from bench.engine.outcome import Outcome
    from bench.journal import RunMeta
    from bench.plan import Plan
    from bench.report import Report
    from bench.settings import Environment

GATE_FAILED = 4


def run(*, flags: RunFlags | None = None) -> int:
    """Measure providers on benchmarks; with no flag the embedded demo with the key-less built-ins."""
    flags = flags or RunFlags()
    if flags.resume is not None:
        return resume(flags.resume, flags=flags)
    from bench.plan import make_plan

    catalog, environment = surroundings()
    request = _request(catalog, flags)
    if request.download:
        _fetch(catalog, request)
    planned = make_plan(catalog, request, _for_planning(environment, request.cluster))
    return carry_out(planned, environment, resume=None)


def eval_(benchmark: str | None = None, provider: str | None = None, /, *, flags: RunFlags | None = None) -> int:
    """The same as run; BENCHMARK and PROVIDER may stand without a flag."""
    return run(flags=_named(flags or RunFlags(), benchmark, provider))


def resume(run_id: str, /, *, flags: RunFlags | None = None) -> int:
    """Go on with a run: its plan is in its journal, run-time flags may change."""
    from bench.engine import resumed_plan
    from bench.journal import Reader
    from bench.journal.places import find_run

    catalog, environment = surroundings()
    found = asked(catalog, flags or RunFlags())

    async def planned() -> tuple[Path, Plan]:
        async with Reader.open(find_run(catalog.workspace, run_id)) as reader:
            cluster = found.get("cluster", reader.meta.request.get("cluster"))
        ahead = _for_planning(environment, cluster)
        return await resumed_plan(run_id, catalog=catalog, flags=found, environment=ahead)

    folder, plan = anyio.run(planned)
    return carry_out(plan, environment, resume=folder)


def plan(benchmark: str | None = None, provider: str | None = None, /, *, flags: RunFlags | None = None) -> int:
    """What a run would do: items, calls, tokens, cost, least possible time. Calls nothing."""
    from bench.cli.planview import show_plan
    from bench.plan import make_plan
    from bench.providers.facts import needs
    from bench.settings import Rehearsal

    flags = _named(flags or RunFlags(), benchmark, provider)
    catalog, environment = surroundings()
    ahead = Rehearsal(values=environment.values, dotenv=environment.dotenv)
    made = make_plan(catalog, _request(catalog, flags), ahead)
    for lane in made.lanes:
        for name in needs(lane.provider.config):
            ahead.ensure(name, user=lane.provider.label)
    show_plan(made, flags, unset=ahead.absent)
    return 0


# --------------------------------------------------------------------------- parts


def surroundings() -> tuple[Catalog, Environment]:
    """The configs and variables of the workspace; logs go where the global flags say."""
    from bench import events
    from bench.config.catalog import Catalog
    from bench.settings import Environment

    flags = current.get()
    events.configure(verbose=flags.verbose, quiet=flags.quiet, log_file=flags.log_file)
    environment = Environment.load(flags.workspace, flags.env_file)
    if environment.dotenv is not None:
        console.note(f"variables from {environment.dotenv} (they override nothing)")
    return Catalog.load(flags.workspace), environment


def _named(flags: RunFlags, benchmark: str | None, provider: str | None) -> RunFlags:
    """BENCHMARK and PROVIDER without a flag stand for the flags of their names, which cannot be given too."""
    if benchmark is None:
        return flags
    if flags.benchmarks is not None or (provider and flags.providers is not None):
        raise UsageError(f"{benchmark} and --benchmarks or --providers say the same thing", hint="give one of them")
    return replace(flags, benchmarks=[benchmark], providers=[provider] if provider else flags.providers)


def _for_planning(environment: Environment, cluster: object) -> Environment:
    """The workers of a cluster elsewhere have the secrets, so this process needs none."""
    if cluster is None or str(cluster).startswith("local:"):
        return environment
    from bench.settings import Rehearsal

    return Rehearsal(values=environment.values, dotenv=environment.dotenv)


def asked(catalog: Catalog, flags: RunFlags) -> dict[str, object]:
    """The flags that were given, laid over those of the run file.

    Raises:
        UsageError, ConfigError: a list flag without a value; no such file, or what stands in it.
    """
    from bench.config.run import RunRequest
    from bench.config.source import Source, load
    from bench.plan.prices import unknown_names

    if flags.config is None:
        return given(flags)
    path = flags.config if flags.config.is_file() else _run_file(catalog, str(flags.config))
    source = Source.read(path)
    request = load(source, RunRequest)
    for name, problem in unknown_names(catalog, request.prices, [entry.name for entry in catalog.models()]):
        raise ConfigError(problem.message, where=source.place(("prices", name)), hint=problem.hint)
    return request.model_dump(exclude_unset=True) | given(flags)


def _request(catalog: Catalog, flags: RunFlags) -> RunRequest:
    from bench.config.run import RunRequest

    return RunRequest.combine(None, asked(catalog, flags))


def _run_file(catalog: Catalog, name: str) -> Path:
    if "/" in name or name.endswith((".yaml", ".yml")):
        there = ", ".join(entry.name for entry in catalog.runs() if not entry.shadowed) or "none"
        own = catalog.workspace / "configs" / "runs"
        raise UsageError(
            f"--config {name}: no such file",
            hint=f"give a path, or a name: run files in {own} and the shipped ones are {there}",
        )
    return catalog.find("runs", name).path


def _fetch(catalog: Catalog, request: RunRequest) -> None:
    """Download what is missing of the benchmarks of a request."""
    from bench.cli.look import download_benchmark

    for name in request.benchmarks:
        download_benchmark(catalog, name, source=None)


def carry_out(plan: Plan, environment: Environment, *, resume: Path | None, errand: Errand | None = None) -> int:
    """Run the plan, write and show the report, and say what to do next."""
    again = "give the command again" if resume is None else command(f"bench resume {resume.name}")
    interrupts.stage("nothing was called yet", hint=again)
    check_gates(plan)
    if plan.request.sign:
        _check_key(plan)
    outcome, report, folder = anyio.run(_execute, plan, environment, resume, errand)
    failed_gates = missed_gates(plan, report)
    code = outcome.exit_code or (GATE_FAILED if failed_gates else 0)
    if current.get().json:
        console.json_line(done_event(outcome, report, code))
    else:
        show(outcome, report, folder)
    for text in failed_gates:
        console.note(text)
    if plan.request.sign and code == 0:
        code = sign(plan, outcome)
    on_end(plan, outcome, code)
    return code


def _check_key(plan: Plan) -> None:
    """No run is paid for that cannot be signed; a child process reads the key, as it does to sign."""
    from bench.receipt.keycheck import check_in_child

    console.note(f"to be signed by {check_in_child(plan.workspace, plan.request.key)}")


def _announce(plan: Plan, meta: RunMeta) -> None:
    """Write ``run-started`` to the public log before the first call; a child process reads the log key."""
    from bench.receipt.announcing import announce_in_child, announcement_of

    index = announce_in_child(announcement_of(plan, meta))
    console.note(f"announced in the public log at index {index}")


async def _execute(
    plan: Plan, environment: Environment, resume: Path | None, errand: Errand | None
) -> tuple[Outcome, Report, Path]:
    from bench import events
    from bench.cli.display import display_for, follow
    from bench.engine import execute
    from bench.engine.run import results_folder
    from bench.journal import Reader
    from bench.report import fold
    from bench.report.publish import publish
    from bench.report.summary import remember

    display = display_for(current.get())
    for text in plan.notes:
        console.note(text)
    announce = partial(_announce, plan) if plan.request.publishable and resume is None else None
    async with follow(display):
        if plan.request.cluster is not None and errand is None:
            from bench.cluster import execute_on_cluster

            outcome = await execute_on_cluster(
                plan, environment=environment, observer=display, resume=resume, announce=announce
            )
        else:
            outcome = await execute(
                plan, environment=environment, observer=display, resume=resume, errand=errand, announce=announce
            )
    interrupts.listen()
    left = f"run {outcome.run_id} is {outcome.status}, its report was being written"
    interrupts.stage(left, hint=command(outcome.resume or f"bench results {outcome.run_id}"))
    safe = 0
    try:
        async with Reader.open(outcome.folder) as reader:
            safe = sum((await reader.counts()).values())
            report = await fold(reader)
            folder = await publish(reader, report, results_folder(plan))
            await remember(reader, report, plan.workspace / "results")
    except (OSError, DiskFull) as error:
        if not isinstance(error, DiskFull) and not is_disk_full(error):
            raise
        # the run's own words would be lost with its report
        text = outcome.message if "safe" in outcome.message else f"the disk is full; {safe} phases safe"
        raise DiskFull(
            text, hint=f"make room, then {command(outcome.resume or f'bench results {outcome.run_id}')}"
        ) from error
    events.close()
    return outcome, report, folder
