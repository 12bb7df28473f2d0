"""Read a benchmark config from its file, from the files that it extends, and from prompt files.

The module also checks the config without its data, and collects notes for the user.

Example::

    config = read_benchmark(Path("configs/benchmarks/demo.yaml"), find=catalog_path)
    config.notes        # notes for the user
    problems_of(config)     # [ConfigError('demo.yaml:1:1: name "demo2" must equal the file name "demo"')]
    notes_of(config)        # ('runtime.resumable: false has no effect: every run has a journal ...',)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from pydantic import ValidationError

from bench.config.benchmark.config import BenchmarkConfig, BenchmarkFile
from bench.config.benchmark.manifest import PLACES, LlmAsJudge, Manifest
from bench.config.benchmark.sections import ContextSection, Questions
from bench.config.benchmark.terms import ConfigOrigin, Format
from bench.config.file import Model, Source, did_you_mean, in_file_order, load
from bench.config.jsontext import TreePath
from bench.config.template import Template, slot_names
from bench.errors import ConfigError

RUBRIC_METHODS = frozenset({"rubric", "rubric-points", "order-agreement", "memory-audit"})
"""evaluators that score an item by the points of its rubric"""
ANSWERLESS = RUBRIC_METHODS | {"none", "deletion-check", "mcq"}
"""evaluators that need no gold answer"""
SESSION_NAMES = ("date", "sessionDate", "session", "turns", "metadata.*")
ANSWER_NAMES = ("question", "questionDate", "retrievedContext", "choices", "speakerA", "speakerB")
JUDGE_NAMES = ("question", "answer", "response", "questionType", "questionDate", "rubric", "evidence")


def session_fields(config: BenchmarkConfig) -> tuple[str, ...]:
    """Return the names of the session fields that formatTemplate inserts; empty if it inserts none."""
    template = config.ingestion.preprocessing.format_template
    if template is None or not any(context.session for context in config.fields.contexts):
        return ()
    return tuple(
        dict.fromkeys(name for name in slot_names(template) if name.isidentifier() and name not in SESSION_NAMES)
    )


def session_names(config: BenchmarkConfig) -> tuple[str, ...]:
    """Return the names of all values that formatTemplate can insert."""
    return (*SESSION_NAMES, *session_fields(config))


SUFFIXES: Mapping[str, Format] = {
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
    ".pq": "parquet",
}  # fmt: skip
"""file suffix -> format; ``.gz`` may follow the suffix"""


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case. An ending ``.gz`` is ignored."""
    return PurePath(name.removesuffix(".gz")).suffix.lower()


def problems_of(config: BenchmarkConfig) -> list[ConfigError]:
    """Return every problem of the config, in no fixed order."""
    checks = (_name, _schema, _context, _chunk, _format, _evaluation, _types, _abstention, _gold, _templates)
    found = [(config.place(*path), text, hint) for check in checks for path, text, hint in check(config)]
    return [ConfigError(text, where=where, hint=hint) for where, text, hint in found]


Finding = tuple[TreePath, str, str]


def _name(config: BenchmarkConfig) -> Iterator[Finding]:
    if config.origin is None:
        return
    path = config.origin.path
    expected = path.parent.name if path.name == "manifest.json" else path.stem
    is_manifest = path.name == "manifest.json"
    if config.name != expected and (is_manifest or path.parent.name == "benchmarks"):
        kind = "folder" if is_manifest else "file"
        yield ("name",), f'name "{config.name}" must equal the {kind} name "{expected}"', "rename one of the two"


def _schema(config: BenchmarkConfig) -> Iterator[Finding]:
    schema = config.fields
    if not schema.question_lists:
        if schema.question is None:
            yield ("schema",), 'missing field "question" in schema', "name the field that contains the question"
        if schema.answer is None and not ANSWERLESS.issuperset(config.evaluation.every_method):
            words = '"expected_answer_field" in query' if config.fields_by_name else '"answer" in schema'
            yield ("schema",), f"missing field {words}", "name the field that contains the answer"
    for path, context in contexts_of(config):
        items = context.item_schema
        if items is not None and items.content is None and items.text is None:
            text = 'itemSchema needs "content" or "text"'
            yield (*path, "itemSchema"), text, "name the field with the text of a turn"
        if context.type == "string" and (items or context.date_field):
            yield (
                (*path, "type"),
                'a context of type "string" has no turns and no dates',
                "write type: array or type: object",
            )


def contexts_of(config: BenchmarkConfig) -> Iterator[tuple[TreePath, ContextSection]]:
    """Yield (key path, section) for each history section."""
    one = not isinstance(config.fields.context, tuple)
    for index, context in enumerate(config.fields.contexts):
        yield ("schema", "context") if one else ("schema", "context", index), context


def questions_of(config: BenchmarkConfig) -> Iterator[tuple[TreePath, Questions]]:
    """Yield (key path, section) for each section of nested questions."""
    several = isinstance(config.fields.questions, tuple)
    for index, questions in enumerate(config.fields.question_lists):
        yield ("schema", "questions", index) if several else ("schema", "questions"), questions


OF_LISTS, OF_KEYS = ("date_field", "session_id_field"), ("session_pattern", "date_pattern")


def _context(config: BenchmarkConfig) -> Iterator[Finding]:
    """Check that each history section sets only keys that are read for its type."""
    for place, context in contexts_of(config):
        kind = context.type
        unread = {"array": (*OF_KEYS, "id"), "object": (*OF_LISTS, "id"), "session": (*OF_LISTS, *OF_KEYS),
                  "string": (*OF_LISTS[1:], *OF_KEYS)}[kind]  # fmt: skip
        for name in (*unread, *(("session",) if kind != "array" else ())):
            path = (*place, name)
            if config.sets(*path):
                text = f"{config.written(*path)} has no effect: {CONTEXT_KINDS[kind]}"
                yield path, text, "remove it"


CONTEXT_KINDS = {
    "array": 'with "type: array", the sessions are the elements of a list',
    "object": 'with "type: object", the keys contain the ids and dates of the sessions',
    "string": 'with "type: string", the history is one text',
    "session": 'with "type: session", the history is one session',
}


def _chunk(config: BenchmarkConfig) -> Iterator[Finding]:
    """Check that ``ingestion.chunk`` is only set if a history can be a text or a list of texts."""
    contexts = config.fields.contexts
    if config.ingestion.chunk and not any(
        context.type == "string" or (context.type == "array" and context.session is None) for context in contexts
    ):
        kinds = "; ".join(dict.fromkeys(CONTEXT_KINDS[context.type] for context in contexts))
        yield ("ingestion", "chunk"), f"ingestion.chunk has no effect: {kinds}", CHUNK_HINT


CHUNK_HINT = "remove chunk; it only cuts a history that is a text or a list of texts"


def _format(config: BenchmarkConfig) -> Iterator[Finding]:
    data = config.data
    if bool(data.path) == bool(data.files):
        text = 'data has both "path" and "files"' if data.path else 'missing field "path" in "data"'
        yield ("data",), text, 'remove "path" or "files"' if data.path else "add path"
        return
    if data.files and data.type != "local":
        yield (
            ("data", "files"),
            'data.files needs data.type "local"',
            "write type: local, and give the address of each file in data.fetch",
        )
    if data.fetch and data.type != "local":
        yield ("data", "fetch"), 'data.fetch needs data.type "local"', "write type: local"
    for name, address in data.fetch.items():
        where = PurePath(name)
        if where.is_absolute() or ".." in where.parts:
            yield ("data", "fetch", name), f'"{name}" is outside of the workspace', "write a path inside the workspace"
        if not address.startswith(("http://", "https://")) and len(address.removeprefix("hf:").split("/")) < 3:
            yield ("data", "fetch", name), f'"{address}" is not an address', "write a URL, or hf:OWNER/NAME/FILE"
    for name in data.names:
        if data.format is None and suffix_of(name) not in SUFFIXES:
            yield ("data",), f'cannot tell the format of "{name}"', "add format: json, jsonl, csv, tsv or parquet"


def _evaluation(config: BenchmarkConfig) -> Iterator[Finding]:
    evaluation = config.evaluation
    if ("custom" in evaluation.every_method) != (evaluation.custom_evaluator is not None):
        text = 'method "custom" and the key "customEvaluator" must be used together'
        yield ("evaluation", "method"), text, "write method: custom and customEvaluator: ./file.py:Class"
    fields = config.fields
    for method in evaluation.every_method:
        yield from unmet_needs(config, method)
    yield from _prompts_without_choices(config)
    if "labels" in evaluation.every_method and not evaluation.labels:
        yield ("evaluation", "method"), 'method "labels" needs the key "labels"', "labels: {correct: 1, wrong: 0}"
    known = ("question_type", "choices", *fields.metadata)
    if config.sets("evaluation", "methodsBy") and not evaluation.methods:
        yield (
            ("evaluation", "methodsBy"),
            "evaluation.methodsBy has no effect without methods",
            "remove it, or add methods",
        )
    if evaluation.methods_by not in known:
        text = f'methodsBy "{evaluation.methods_by}" is unknown{did_you_mean(evaluation.methods_by, known)}'
        yield ("evaluation", "methodsBy"), text, "write question_type, choices or a key of schema.metadata"
    if evaluation.pack is not None and "@" not in evaluation.pack:
        yield ("evaluation", "pack"), f'pack "{evaluation.pack}" has no version', "write NAME@VERSION"


def unmet_needs(config: BenchmarkConfig, method: str) -> Iterator[Finding]:
    """Yield an error for each part of the config without which the evaluator ``method`` can score no item."""
    fields = config.fields
    if method == "deletion-check" and config.deletion is None:
        text = 'method "deletion-check" needs the strategy "add-delete-verify"'
        yield ("evaluation", "method"), text, "see docs/add-a-benchmark.md"
    needs = [
        (method == "mcq" and not config.has_choices, '"choices" in "schema"', "the choices"),
        (method == "mcq" and fields.choice_answer is None, '"choiceAnswer" in "schema"', "the right choice"),
        (method in RUBRIC_METHODS and not fields.rubric, '"rubric" in "schema"', "the points of the rubric"),
        (
            method == "code-correctness" and "tests" not in fields.metadata,
            '"tests" in "schema.metadata"',
            "the code of the tests",
        ),
    ]
    for unmet, key, content in needs:
        if unmet:
            yield ("schema",), f'method "{method}" needs {key}', f"name the field that contains {content}"


def _prompts_without_choices(config: BenchmarkConfig) -> Iterator[Finding]:
    """Check that the answer prompts of a multiple-choice benchmark show the choices."""
    prompts = config.evaluation.answer_prompt
    named: list[tuple[tuple[str, ...], str]] = [(("default",), prompts.default or "")]
    named += [(("byQuestionType", kind), text) for kind, text in prompts.by_question_type.items()]
    for path, text in named if config.evaluation.method == "mcq" else ():
        if text and "choices" not in slot_names(text):
            problem = 'method "mcq" needs ${choices} in the answer prompt, so that the model sees the options'
            yield ("evaluation", "answerPrompt", *path), problem, "add a line with ${choices} to the prompt"


def _types(config: BenchmarkConfig) -> Iterator[Finding]:
    known = {kind.name for kind in config.question_types} or set(config.categories.values())
    if not known:
        return
    for group, members in config.groups.items():
        for index, name in enumerate(members):
            if name not in known:
                text = f'group "{group}" names the unknown type "{name}"{did_you_mean(name, known)}'
                yield ("groups", group, index), text, f"types: {', '.join(sorted(known))}"
    for index, name in enumerate(config.abstention.question_types):
        if name not in known:
            text = f'abstention names the unknown type "{name}"{did_you_mean(name, known)}'
            yield ("abstention", "questionTypes", index), text, f"types: {', '.join(sorted(known))}"


_MEAN_ANSWERABLE = frozenset((
    "answerable", "isanswerable", "answered", "isanswered", "hasanswer", "hasanswers", "hasananswer", "containsanswer",
    "canbeanswered", "cananswer", "possible", "ispossible", "answerpossible", "answerexists", "answeravailable",
    "isanswerpresent", "answerpresent", "ispresent", "answerincontext", "solvable", "issolvable",
))  # fmt: skip
"""names of flags that are true for an answerable question, in lower case without separators"""


def _abstention(config: BenchmarkConfig) -> Iterator[Finding]:
    """Check that ``abstention.equals`` comes with a ``field``.

    Also check that a field with a name such as ``answerable`` has ``equals``. Without ``equals``, a true value of the
    field means that there is no answer.
    """
    rule = config.abstention
    if rule.field is None:
        if rule.equals is not None:
            yield ("abstention", "equals"), "abstention.equals needs abstention.field", "name the field to compare"
        return
    last = re.split(r"[.\[\]'\"]+", rule.field.rstrip("]'\""))[-1]
    if rule.equals is None and re.sub(r"[^a-z]", "", last.lower()) in _MEAN_ANSWERABLE:
        text = f'abstention.field "{rule.field}" seems to be true for items that have an answer'
        yield (
            ("abstention", "field"),
            text,
            "add equals: false to abstention; if a true value means no answer, add equals: true",
        )


def _texts(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    for one in tree if isinstance(tree, tuple) else ():
        yield from _texts(one)


def _gold(config: BenchmarkConfig) -> Iterator[Finding]:
    """Check that no gold field is sent to a provider.

    Also check that ``promote_fields`` does not name ``id``.
    """
    fields, evidence = config.fields, config.evidence
    named = (
        fields.answer,
        fields.choice_answer,
        fields.rubric_paths,
        evidence.session_ids_field,
        evidence.turn_ids_field,
        evidence.texts_field,
    )
    gold = set(_texts(named))
    for index, name in enumerate(config.memory_metadata):
        if name in gold:
            text = f'metadata_fields names "{name}", which contains the answer or its evidence'
            yield ("memory_metadata", index), text, "remove it: the provider would receive it with the memories"
    for index, name in enumerate(config.flatten.promote_fields if config.flatten else ()):
        if name == "id":
            text = 'promote_fields names "id", but children have the ids ROW_0, ROW_1, ...'
            yield ("flatten", "promote_fields", index), text, "remove it"


def _templates(config: BenchmarkConfig) -> Iterator[Finding]:
    for path, text, names in templates_of(config):
        try:
            Template.parse(text, names)
        except ConfigError as error:
            yield path, error.message, error.hint


def templates_of(config: BenchmarkConfig) -> Iterator[tuple[TreePath, str, tuple[str, ...]]]:
    """Yield (key path, text, names) for every template of a config. The template can insert the values ``names``."""
    template = config.ingestion.preprocessing.format_template
    if template is not None:
        yield ("ingestion", "preprocessing", "formatTemplate"), template, session_names(config)
    answer, judge = config.evaluation.answer_prompt, config.evaluation.judge_prompts
    answer_names = (*ANSWER_NAMES, *answer.prompt_fields)
    sections = (("answerPrompt", answer.default, answer.by_question_type, answer_names),
                ("judgePrompts", judge.default, judge.by_question_type, JUDGE_NAMES))  # fmt: skip
    for section, default, by_type, names in sections:
        if default is not None:
            yield ("evaluation", section, "default"), default, names
        for name, text in by_type.items():
            yield ("evaluation", section, "byQuestionType", name), text, names
    if judge.abstention is not None:
        yield ("evaluation", "judgePrompts", "abstention"), judge.abstention, JUDGE_NAMES


def notes_of(config: BenchmarkConfig) -> tuple[str, ...]:
    """Return notes about the config for the user. A note does not stop a run."""
    return tuple(text for check in (_runtime_notes, _data_notes, _prompt_notes) for text in check(config))


def _runtime_notes(config: BenchmarkConfig) -> Iterator[str]:
    for key in ("checkpointing", "resumable"):
        if not getattr(config.runtime, key):
            yield f"runtime.{key}: false has no effect: every run has a journal and can be resumed"
    if config.runtime.checkpoint_granularity != "item":
        yield "runtime.checkpointGranularity has no effect: a run stores every phase of every item"
    if config.ingestion.preprocessing.escape_html:
        yield 'preprocessing.escapeHtml changes the stored texts, so answers can differ: the run is marked "altered"'
    if config.history.mode != "full":
        yield (
            f'mode "{config.history.mode}" is for development: the run is marked "reduced_history" and cannot '
            "be published"
        )


def _data_notes(config: BenchmarkConfig) -> Iterator[str]:
    data = config.data
    if data.type == "local":
        return
    if data.sha256 is None:
        yield "data.sha256 is missing: the file cannot be checked, and results cannot be published"
    pinned = data.revision is not None and len(data.revision) == 40 and set(data.revision) <= set("0123456789abcdef")
    if data.type == "huggingface" and data.revision is not None and not pinned:
        yield f'data.revision "{data.revision}" is not a commit, so the data may change'


def _prompt_notes(config: BenchmarkConfig) -> Iterator[str]:
    prompts = config.evaluation.judge_prompts
    if prompts.source == "paper" and config.evaluation.pack is None:
        yield 'judgePrompts.source is "paper", but no pack is named: the prompts count as custom (fidelity: custom)'
    for kind in config.question_types:
        wanted = kind.evaluation_prompt
        if wanted != "default" and wanted not in prompts.by_question_type and kind.name not in prompts.by_question_type:
            yield (
                f'evaluationPrompt "{wanted}" of question type "{kind.name}" is not in '
                "judgePrompts.byQuestionType: the prompt "
                '"default" is used'
            )


FindBenchmark = Callable[[str], Path | None]
"""function that returns the file of a benchmark by name, for ``extends``; None for an unknown name"""

MAX_EXTENDS = 10


def read_benchmark(path: Path, *, find: FindBenchmark, workspace: Path | None = None) -> BenchmarkConfig:
    """Read a benchmark file, which is YAML or a manifest.

    Prompt files are looked up next to the file, then in the workspace.

    Raises:
        ConfigError: the file has problems; the error lists all of them.
    """
    origin = ConfigOrigin(sources=_source_chain(path, find))
    is_manifest = _is_manifest(origin.sources[0])
    if any(_is_manifest(source) != is_manifest for source in origin.sources):
        raise ConfigError(
            "a manifest and a YAML benchmark cannot extend each other",
            where=origin.place(("extends",)),
            hint="write both files as manifests, or both as YAML benchmarks",
        )
    config, problems = _from_manifest(origin) if is_manifest else _from_yaml(origin, workspace)
    problems += problems_of(config)
    if problems:
        raise ConfigError.of(in_file_order(problems))
    config._notes = notes_of(config)
    return config


def _is_manifest(source: Source) -> bool:
    return "manifest_version" in source.tree or source.path.name == "manifest.json"


def _source_chain(path: Path, find: FindBenchmark) -> tuple[Source, ...]:
    """Return the content of a file and of all files that it extends. The file itself comes first."""
    sources = [Source.read(path)]
    while (name := sources[-1].tree.get("extends")) is not None:
        parent = find(name) if isinstance(name, str) else None
        where = sources[-1].place(("extends",))
        if parent is None:
            text = f'"extends: {name}": there is no benchmark with this name'
            raise ConfigError(text, where=where, hint="list the known benchmarks with: bench list benchmarks")
        if any(source.path.resolve() == parent.resolve() for source in sources):
            raise ConfigError(f'"extends: {name}" is circular', where=where, hint='remove one of the keys "extends"')
        if len(sources) > MAX_EXTENDS:
            raise ConfigError(
                f'"extends: {name}": the chain of "extends" has more than {MAX_EXTENDS} files',
                where=where,
                hint='remove one of the keys "extends"',
            )
        sources.append(Source.read(parent))
    return tuple(sources)


def _load_merged(origin: ConfigOrigin, model: type[Model]) -> Model:
    """Validate the merged files of a config, and return them as an instance of ``model``.

    A key with the value null is removed, even if no extended file has the key. An unknown key is an error, even if its
    value is null. An error about a key names the first file that has the key.
    """
    if len(origin.sources) == 1:
        return load(origin.sources[0], model)
    child = origin.sources[0]
    tree = origin.tree() | {"aliases": child.tree.get("aliases") or []}  # aliases are never inherited
    source = _MergedSource(path=origin.path, tree=tree, origin=origin)
    try:
        return model.model_validate(source.tree)
    except ValidationError as error:
        for details in error.errors():
            if details["input"] is None and details["type"] != "extra_forbidden":
                _remove_null(tree, source.locate(tuple(details["loc"])))
    return load(source, model)


def _remove_null(tree: dict[str, object], path: TreePath) -> None:
    """Remove the key at ``path`` from ``tree`` if its value is null and all its parents are maps."""
    node: object = tree
    for key in path[:-1]:
        node = node.get(str(key)) if isinstance(node, dict) else None
    if path and isinstance(node, dict) and node.get(str(path[-1]), node) is None:
        del node[str(path[-1])]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergedSource(Source):
    """Several merged files as one source. An error about a key names the file and line where this key is written."""

    origin: ConfigOrigin

    def place(self, path: TreePath) -> str:
        return self.origin.place(path)


def _from_yaml(origin: ConfigOrigin, workspace: Path | None) -> tuple[BenchmarkConfig, list[ConfigError]]:
    """Return the config, and an error for each prompt file that cannot be read.

    The text of such a prompt stays ``@file``.
    """
    file = _load_merged(origin, BenchmarkFile)
    values = file.model_dump(by_alias=True)
    problems = _insert_prompts(values["evaluation"], origin, workspace)
    _set_local_path(values, origin)
    config = BenchmarkConfig.model_validate(values)
    config._origin = origin
    return config, problems


def _set_local_path(values: dict[str, object], origin: ConfigOrigin) -> None:
    """Set the local path of the data in ``values``.

    The folder of a download has the name of the config that defines the download. All configs that extend this config
    share the folder.
    """
    data = values["data"]
    assert isinstance(data, dict)
    if data["localPath"] is not None or data["files"]:
        return
    if data["type"] == "local":
        data["localPath"] = data["path"]
        return
    owner = origin.source_of(("data", "file") if data["file"] else ("data", "path"))
    name = Path(str(data["file"] or data["path"])).name
    data["localPath"] = f"datasets/{owner.tree.get('name', owner.path.stem)}/{name}"


_PROMPTS: tuple[TreePath, ...] = (
    ("answerPrompt", "default"),
    ("answerPrompt", "byQuestionType"),
    ("judgePrompts", "default"),
    ("judgePrompts", "byQuestionType"),
    ("judgePrompts", "abstention"),
)


def _insert_prompts(evaluation: object, origin: ConfigOrigin, workspace: Path | None) -> list[ConfigError]:
    """Replace each ``@file`` by the text of the file. Return an error for each file that cannot be read."""
    problems: list[ConfigError] = []
    for section, key in _PROMPTS:
        holder = evaluation[section]  # type: ignore[index]
        entries = holder[key] if isinstance(holder[key], dict) else holder
        for name in list(entries) if isinstance(holder[key], dict) else [key]:
            text = entries[name]
            path: TreePath = ("evaluation", section, key) if entries is holder else ("evaluation", section, key, name)
            if isinstance(text, str) and text.startswith("@"):
                try:
                    entries[name] = _file_text(text[1:].strip(), path, origin, workspace)
                except ConfigError as error:
                    problems.append(error)
    return problems


def _file_text(name: str, path: TreePath, origin: ConfigOrigin, workspace: Path | None) -> str:
    folders = [origin.folder_of(path), *([workspace] if workspace else [])]
    found = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if found is None:
        folders_text = " or ".join(str(folder) for folder in folders)
        raise ConfigError(
            f'the file "{name}" is not there', where=origin.place(path), hint=f"put the file into {folders_text}"
        )
    try:
        return found.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f'cannot read the file "{name}": {error.strerror}', where=origin.place(path), hint="make the file readable"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f'the file "{name}" is not UTF-8 at byte {error.start}',
            where=origin.place(path),
            hint="save the file as UTF-8",
        ) from error


def _from_manifest(origin: ConfigOrigin) -> tuple[BenchmarkConfig, list[ConfigError]]:
    manifest = _load_merged(origin, Manifest)
    problems: list[ConfigError] = []
    try:
        instructions = _instructions(manifest, origin)
    except ConfigError as error:
        instructions, problems = {}, [error]
    config = BenchmarkConfig.model_validate(manifest.as_benchmark(instructions))
    config._origin = ConfigOrigin(sources=origin.sources, aliases=PLACES)
    return config, problems


def _instructions(manifest: Manifest, origin: ConfigOrigin) -> dict[str, str]:
    """Return question type -> instruction, from the type_instructions_file of the manifest.

    The result is empty if the manifest names no such file.
    """
    if not isinstance(manifest.evaluation, LlmAsJudge) or manifest.evaluation.type_instructions_file is None:
        return {}
    path: TreePath = ("evaluation", "type_instructions_file")
    name = manifest.evaluation.type_instructions_file
    text = _file_text(name, path, origin, None)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f'type_instructions_file "{name}" is not JSON: {error}', where=origin.place(path), hint="correct the file"
        ) from error
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ConfigError(
            f'type_instructions_file "{name}" must be a JSON object that maps each question type to a text',
            where=origin.place(path),
            hint="correct the file",
        )
    return values
