"""The sections of a receipt that describe a job: run, benchmark, provider, models, prompts and metrics.

``environment`` returns the machine and the code version of the run.

Example::

    facts = JobMetadata(meta=reader.meta, record=record)
    facts.benchmark().dataset.sha256
    environment(reader.meta).git.commit

All data is read from the journal, not from this machine, because a run may be signed on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import urlsplit

from bench.canonical import JSON
from bench.config.builtin_providers import BUILT_IN
from bench.events import HIDDEN
from bench.journal import ResumeRow as StoredResume
from bench.journal import RunMeta
from bench.plan.job_record import JobRecord
from bench.plan.model import BUILT_IN_EMBEDDING
from bench.receipt import schema_run
from bench.receipt.base_model import NO_DIGEST, UNKNOWN, commit_or_none, format_time, integer
from bench.receipt.digests import config_tree
from bench.receipt.schema import Reproducibility
from bench.untyped_values import object_or_empty, text_or_none

BUILT_IN_MODELS = "builtin/"
_SELECTION_COUNTS = ("limit", "sample")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedVersions:
    """The versions that the provider reported at the start of the run; None = not reported."""

    version: str | None = None
    upstream: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetadata:
    """The descriptive sections of a receipt, from the journal entries of one job."""

    meta: RunMeta
    record: JobRecord
    resumes: tuple[StoredResume, ...] = ()
    provider_versions: ReportedVersions = ReportedVersions()
    reported: Mapping[str, str] = field(default_factory=dict)
    """role of a model -> the model names that its endpoint returned, as one text"""
    build_notes: tuple[str, ...] = ()
    """notes on reused memories and on suspicious results"""
    judge_notes: tuple[str, ...] = ()
    """notes on the errors of the judge, on its model family, and on replies from the call cache"""
    parts: tuple[tuple[int, int], ...] = ()
    """(first, last) item numbers, counted from 1, of each range of items that ran separately"""

    # ---- run

    def run(
        self,
        proof: schema_run.ReceiptIsolation,
        announced: tuple[schema_run.Preregistration, schema_run.LogHead] | None,
    ) -> schema_run.Run:
        """Return the section ``run``: the settings of the run, its isolation proof and its announcement."""
        operation = object_or_empty(self.meta.extra.get("operation"))
        return schema_run.Run(
            run_id=self.meta.run_id,
            plan_digest=self.meta.plan_digest,
            seed=self.record.seed,
            epochs=self.record.epochs,
            concurrency=_concurrency(operation.get("concurrency")),
            k=self.record.k or None,
            context_budget_tokens=self.record.context_budget,
            track=cast("Literal['uniform', 'vendor']", self.record.track),
            isolation=cast("Literal['off', 'probe', 'full']", operation.get("isolation") or "probe"),
            isolation_proof=proof,
            preregistration=announced[0] if announced else None,
            log=announced[1] if announced else None,
            resumes=tuple(_resume(one) for one in self.resumes),
            shards=tuple(self._shards()),
        )

    def _shards(self) -> list[schema_run.ReceiptShard]:
        ranges = sorted(set(self.parts or self.meta.ranges))
        return [
            schema_run.ReceiptShard.model_validate({"index": place, "of": len(ranges), "from": start, "to": end})
            for place, (start, end) in enumerate(ranges, start=1)
        ]

    # ---- what was measured

    def benchmark(self) -> schema_run.Benchmark:
        """Return the section ``benchmark``: the dataset, and the selection of its items."""
        record, dataset = self.record, self.record.dataset
        return schema_run.Benchmark(
            name=record.benchmark,
            version=record.benchmark_version,
            split=text_or_none(dataset.get("split")),
            config_sha256=record.config_sha256.get("benchmark", NO_DIGEST),
            dataset=schema_run.DatasetFile(
                sha256=str(dataset.get("sha256") or NO_DIGEST),
                bytes=integer(dataset.get("bytes")),
                items=record.n_items,
                source=str(dataset.get("source") or UNKNOWN),
                license=str(dataset.get("license") or UNKNOWN),
                files={name: str(sha256) for name, sha256 in object_or_empty(dataset.get("files")).items()} or None,
            ),
            selection=_selection(record.selection),
        )

    def provider(self) -> schema_run.ReceiptProvider:
        """Return the section ``provider``: the memory system and its version, or ``unknown`` as version."""
        version, source = self._version()
        return schema_run.ReceiptProvider(
            name=self.record.provider,
            version=version,
            version_source=source,
            kind=cast("Literal['hosted', 'local', 'docker', 'mcp']", self.record.provider_type),
            config_sha256=self.record.config_sha256.get("provider", NO_DIGEST),
            endpoint_host=_host(self._planned_provider().get("base_url")),
            image_digest=None,
        )

    def _version(self) -> tuple[str, Literal["api", "package", "declared"]]:
        """Return the version of the provider, and the source of this version.

        A version that is known before the first call is preferred, so that the announcement of a run and its receipt
        have the same config digest.
        """
        if self.is_built_in:
            return bench_version(self.meta), "package"
        plugin = object_or_empty(self._planned_provider().get("plugin"))
        for version in plugin.values():
            return str(version), "package"
        if self.provider_versions.upstream:
            return self.provider_versions.upstream, "api"
        return self.provider_versions.version or UNKNOWN, "declared"

    def _planned_provider(self) -> Mapping[str, object]:
        return object_or_empty(object_or_empty(self.meta.identity.get("providers")).get(self.record.provider))

    @property
    def is_built_in(self) -> bool:
        """True if the memory system is one that this program contains."""
        return self._planned_provider().get("name") in BUILT_IN

    def models(self) -> tuple[schema_run.ModelUse, ...]:
        """Return the section ``models``: each model with its role, sorted by role and name."""
        names = self.record.models
        embedding = None if names.embedding == BUILT_IN_EMBEDDING else names.embedding
        used = [self._model("embedding", embedding), self._model("answering", names.answering)]
        used.append(self._model("judge", names.judge))
        if names.embedding == BUILT_IN_EMBEDDING:
            used.append(self._model("provider-internal", UNKNOWN))
        found = [use for use in used if use is not None]
        return tuple(sorted(found, key=lambda use: (use.role, use.requested)))

    def _model(self, role: schema_run.Role, name: str | None) -> schema_run.ModelUse | None:
        if name is None or name == "none":
            return None
        vendor, slash, model = name.partition("/")
        planned = object_or_empty(object_or_empty(self.meta.identity.get("models")).get(name))
        settings = self.record.asked_with.get(role, {})
        return schema_run.ModelUse(
            role=role,
            provider=vendor if slash else "",
            requested=model if slash else name,
            reported=self.reported.get(role),
            params={
                **object_or_empty(planned.get("settings")),
                **{key: settings[key] for key in settings if key != "seed"},
            },
            seed=integer(settings["seed"]) if "seed" in settings else None,
        )

    def prompts(self) -> tuple[schema_run.PromptUse, ...]:
        """Return the section ``prompts``: the hash and the source of each prompt, sorted by role."""
        if not self.record.prompts:
            return ()
        return tuple(
            schema_run.PromptUse(role=role, sha256=sha256, source=self._source_of_prompt(role, sha256))
            for role, sha256 in sorted(self.record.prompts.items())
        )

    def _source_of_prompt(self, role: str, sha256: str) -> Literal["default", "benchmark", "custom", "vendor"]:
        """Return the source of a prompt.

        The source is the command line (``custom``), the vendor of the provider, the benchmark, or this program
        (``default``).
        """
        speaker, _, kind = role.partition(".")
        request = object_or_empty(self.meta.request)
        if speaker == "answer" and self.record.track == "vendor":
            return "vendor"
        if speaker == "answer" and request.get("answer_prompt"):
            return "custom"
        given = request.get("judge_prompt") if speaker == "judge" else None
        if isinstance(given, list | tuple) and kind in {self._kind_given(str(entry)) for entry in given}:
            return "custom"
        return "default" if sha256 in _default_prompts() else "benchmark"

    def _kind_given(self, entry: str) -> str:
        """Return the kind of judge prompt that a value of ``--judge-prompt`` replaces.

        The kind is TYPE if the value is TYPE=FILE and the job has a prompt of this type. Otherwise, the kind is
        ``default``.
        """
        kind, equals, _ = entry.partition("=")
        return kind if equals and f"judge.{kind}" in self.record.prompts else "default"

    def metrics(self) -> tuple[schema_run.MetricUse, ...]:
        """Return the section ``metrics``: all metrics of the job except times and costs, sorted by name."""
        used = [
            schema_run.MetricUse(name=metric.name, definition=metric.definition)
            for metric in self.record.metrics
            if metric.is_score
        ]
        return tuple(sorted(used, key=lambda use: use.name))

    def config_tree(self) -> dict[str, JSON]:
        """Return the JSON value whose hash is the config digest. This value is known before the run."""
        proof = schema_run.ReceiptIsolation(probed=0, passed=0, failed=0)
        return config_tree(
            self.benchmark(), self.provider(), self.models(), self.prompts(), self.metrics(), self.run(proof, None)
        )

    # ---- again

    def reproducibility(self) -> Reproducibility:
        """Return the section ``reproducibility``: ``exact``, ``statistical`` or ``none``, with reasons and notes."""
        reasons = list(self._inexact_parts())
        if reasons:
            reasons += self.judge_notes
        else:
            return Reproducibility(class_="exact", reasons=(*self.record.prompt_leaks, *self.build_notes))
        reasons += [*self.record.prompt_leaks, *self.build_notes]
        unknown = self._version()[0] == UNKNOWN
        if unknown:
            reasons.append("the version of the provider that answered is unknown")
        return Reproducibility(class_="none" if unknown else "statistical", reasons=tuple(reasons))

    def _inexact_parts(self) -> list[str]:
        names = self.record.models
        models = {"embedding model": names.embedding, "answering model": names.answering, "judge": names.judge}
        reasons = [
            f"the {role} {name} may answer otherwise"
            for role, name in models.items()
            if name is not None and name != "none" and not name.startswith(BUILT_IN_MODELS)
        ]
        determinism = self._planned_provider().get("determinism")
        if determinism != "deterministic":
            reasons.append(f"the provider {self.record.provider} does not promise to answer the same again")
        return reasons


# ------------------------------------------------------------------------- inside


def _default_prompts() -> frozenset[str]:
    """Return the SHA-256 of each default prompt; benchmarks without their own prompts use default prompts."""
    from bench.canonical import sha256_hex
    from bench.evaluators.packs import generic_answer_prompt, generic_prompt  # loads every prompt there is

    texts = (
        generic_answer_prompt(),
        generic_answer_prompt("choices"),
        *map(generic_prompt, ("default", "abstention", "rubric", "point", "order", "stored", "right", "faithfulness")),
    )
    return frozenset(sha256_hex(text.encode()) for text in texts)


def _selection(stored: Mapping[str, object]) -> schema_run.ReceiptSelection:
    counts = {name: stored.get(name) for name in _SELECTION_COUNTS}
    limit, sample = (value if isinstance(value, int) else None for value in counts.values())
    return schema_run.ReceiptSelection(
        filter={name: value for name, value in stored.items() if name not in _SELECTION_COUNTS and value},
        limit=limit,
        sample=sample,
        order="seeded" if sample else "dataset",
    )


def _resume(stored: StoredResume) -> schema_run.ReceiptResume:
    code, versions = object_or_empty(stored.data.get("code_state")), object_or_empty(stored.data.get("versions"))
    return schema_run.ReceiptResume(
        at=format_time(stored.at),
        code_commit=commit_or_none(code.get("commit")),
        bench_version=str(versions.get("bench") or UNKNOWN),
    )


def _concurrency(stored: object) -> int:
    """Return the stored concurrency as an integer. For ``auto``, return the upper limit of calls at the same time."""
    if stored == "auto":
        from bench.http.adaptive_concurrency import CEILING

        return CEILING
    return max(1, integer(stored) or 10)


def _host(base_url: object) -> str | None:
    """Return the host and port of a URL; None if the value is not a URL with a host."""
    if not isinstance(base_url, str) or not base_url:
        return None
    try:
        parts = urlsplit(base_url.replace(HIDDEN, ""))  # brackets are those of an IPv6 address
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        return None


def bench_version(meta: RunMeta) -> str:
    """Return the version of bench that started the run; ``unknown`` if the journal has no version."""
    return str(meta.versions.get("bench") or UNKNOWN)


def environment(meta: RunMeta) -> schema_run.ReceiptEnvironment:
    """Return the section ``environment``: the machine, the packages and the code that started the run."""
    machine = object_or_empty(meta.extra.get("environment"))
    text = {name: str(machine.get(name) or UNKNOWN) for name in ("python", "implementation", "platform", "cpu")}
    return schema_run.ReceiptEnvironment(
        **text,
        cpu_count=integer(machine.get("cpuCount")),
        memory_bytes=integer(machine.get("memoryBytes")),
        container_image=text_or_none(machine.get("containerImage")),
        container_digest=text_or_none(machine.get("containerDigest")),
        lock_sha256=text_or_none(machine.get("lockSha256")),
        packages=cast("Mapping[str, str]", object_or_empty(machine.get("packages"))),
        git=_git(meta),
        code_tree_sha256=str(machine.get("codeTreeSha256") or NO_DIGEST),
        host_hash=str(machine.get("hostHash") or "0" * 16),
    )


def _git(meta: RunMeta) -> schema_run.Git:
    code = meta.code_state
    return schema_run.Git(
        commit=commit_or_none(code.get("commit")),
        tag=text_or_none(code.get("tag")),
        dirty=cast("bool | None", code.get("dirty")),
    )
