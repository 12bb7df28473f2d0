"""The catalog: configs by name, the workspace first; its quick reader agrees with the full reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO

from bench.config.catalog import Catalog, CatalogEntry, Kind, _read_entry, builtin_root
from bench.config.file import Source
from bench.errors import ConfigError, UsageError
from tests.rows import each_row

KINDS: tuple[Kind, ...] = ("benchmarks", "providers", "models", "runs")
SHIPPED = builtin_root() / "configs"


def quick_read(path: Path, text: str, kind: Kind = "providers") -> CatalogEntry:
    path.write_text(text, encoding="utf-8")
    return _read_entry(path, kind, builtin=False)


def read(path: Path) -> dict[str, object]:
    """Return the listed keys as the full reader reads them."""
    tree = Source.read(path).tree

    def texts(key: str) -> tuple[str, ...]:
        value = tree.get(key)
        parts = value if isinstance(value, list) else [value]
        return tuple(part for part in parts if isinstance(part, str) and (part or isinstance(value, list)))

    name = tree.get("name")
    shown = {key: tree.get(key) for key in ("displayName", "description")}
    return {
        "name": name if isinstance(name, str) and name else path.stem,
        "aliases": texts("aliases"),
        "tags": texts("tags"),
        "display_name": shown["displayName"]
        if isinstance(shown["displayName"], str) and shown["displayName"]
        else None,
        "description": shown["description"] if isinstance(shown["description"], str) and shown["description"] else None,
    }


def seen(entry: CatalogEntry) -> dict[str, object]:
    return {key: getattr(entry, key) for key in ("name", "aliases", "tags", "display_name", "description")}


# --------------------------------------------------------------- quick reader


@each_row(
    "path",
    [path for kind in ("benchmarks", "providers", "models") for path in sorted((SHIPPED / kind).glob("*.yaml"))],
)
def test_the_catalog_reads_shipped_files_like_the_full_reader(path: Path) -> None:
    if not path.stem.endswith(".compose"):
        assert seen(_read_entry(path, "providers", builtin=True)) == read(path)


@each_row(
    ("text", "expected"),
    [
        ("name: a\n", {"name": "a"}),
        ("name: 'a'  # why\n", {"name": "a"}),
        ('name: "a"\n', {"name": "a"}),
        ("name: a # why\n", {"name": "a"}),
        ("name: a#b\n", {"name": "a#b"}),
        ("name:   a   \n", {"name": "a"}),
        ('"name": a\n', {"name": "a"}),
        ("{name: a, tags: [x]}\n", {"name": "a", "tags": ("x",)}),
        ("name: &n a\ndescription: *n\n", {"name": "a", "description": "a"}),
        ("name: 5\n", {"name": "x"}),
        ("name: true\n", {"name": "x"}),
        ("name: ~\n", {"name": "x"}),
        ("name: ''\n", {"name": "x"}),
        ("tags: [a]\n", {"tags": ("a",)}),
        ("name: a\nother:\n  name: b\n  tags: [no]\n", {"name": "a"}),
        ("name: a\ndescription: one\n  two\n", {"name": "a", "description": "one two"}),
        ("name: a\ndescription: >-\n  one\n  two\n", {"name": "a", "description": "one two"}),
        ("name: a\ndescription: |\n  one\n", {"name": "a", "description": "one\n"}),
        ('name: a\ndescription: it\'s "so": [x] {y}\n', None),
        (
            'name: a\ndescription: it\'s "so" [x] {y} http://x\n',
            {"name": "a", "description": 'it\'s "so" [x] {y} http://x'},
        ),
        ("name: a\ndescription: 'it''s'\n", {"name": "a", "description": "it's"}),
        ('name: a\ndescription: "a \\"b\\""\n', {"name": "a", "description": 'a "b"'}),
        ('name: a\ndescription: " a "\n', {"name": "a", "description": " a "}),
        ("name: a\ntags: [a, b , c]\n", {"name": "a", "tags": ("a", "b", "c")}),
        ("name: a\ntags: [a,\n  b]\n", {"name": "a", "tags": ("a", "b")}),
        ("name: a\ntags: ['a, b', \"c\"]  # d\n", {"name": "a", "tags": ("a, b", "c")}),
        ("name: a\ntags:\n  - a\n  # why\n\n  - b # c\n", {"name": "a", "tags": ("a", "b")}),
        ("name: a\ntags:\n- a\n- b\ntype: x\n", {"name": "a", "tags": ("a", "b")}),
        ("name: a\ntags:\n  - 'b c'\n", {"name": "a", "tags": ("b c",)}),
        ("name: a\ntags: [a, 5, true]\n", {"name": "a", "tags": ("a",)}),
        ("name: a\ntags: word\n", {"name": "a", "tags": ("word",)}),
        ("name: a\ntags: []\naliases:\n", {"name": "a"}),
        ("name: a\naliases: [b.c, d-e_f]\n", {"name": "a", "aliases": ("b.c", "d-e_f")}),
        ("name: a\ndisplayName: Ünï Cödé 2\n", {"name": "a", "display_name": "Ünï Cödé 2"}),
        ("# head\n---\nname: a\n", {"name": "a"}),
    ],
)
def test_the_catalog_reads_any_YAML_style_like_the_full_reader(
    tmp_path: Path, text: str, expected: dict[str, object] | None
) -> None:
    path = tmp_path / "x.yaml"
    entry = quick_read(path, text)
    if expected is None:
        assert entry.problem is not None and entry.name == "x"
        return
    rest: dict[str, object] = {"name": "x", "aliases": (), "tags": (), "display_name": None, "description": None}
    assert seen(entry) == rest | expected == read(path)
    assert entry.problem is None


LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="\ufeff\ufffe\uffff")
)


@given(
    st.fixed_dictionaries(
        {"name": LINES, "aliases": st.lists(LINES, max_size=3), "tags": st.lists(LINES, max_size=3) | LINES},
        optional={"description": LINES, "displayName": LINES},
    ),
    st.booleans(),
)
def test_the_catalog_reads_whatever_a_YAML_writer_writes(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object], flow: bool
) -> None:
    writer = YAML(typ="safe", pure=True)
    # the writer escapes some characters of a flow map in a way that no reader accepts
    texts = "".join("".join(value) if isinstance(value, list) else str(value) for value in tree.values())
    writer.default_flow_style = flow and texts.isalnum()
    out = StringIO()
    writer.dump(tree, out)
    path = tmp_path_factory.mktemp("c") / "x.yaml"
    assert seen(quick_read(path, out.getvalue())) == read(path)


@each_row(
    ("name", "content", "problem"),
    [
        ("x.yaml", b"name: [\n", "expected the node content"),
        ("x.yaml", b"- a\n", "not a map of keys"),
        ("x.yaml", b"", "not a map of keys"),
        ("x.yaml", b"name: \xff\n", "utf-8"),
        ("x.yaml", b"name: a\nname: b\n", 'repeated key "name"'),
        ("x.json", b"{", "Expecting property name"),
        ("x.json", b"[]", "not a map of keys"),
        ("x.json", b"[" * 100_000, "recursion"),
    ],
)
def test_an_unreadable_file_is_listed_with_the_reason(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    entry = _read_entry(path, "providers", builtin=False)
    assert entry.name == "x"
    assert entry.problem is not None and problem in entry.problem


def test_a_run_file_is_named_after_its_file(tmp_path: Path) -> None:
    assert quick_read(tmp_path / "nightly.yaml", "benchmarks: [demo]\n", "runs").name == "nightly"


# -------------------------------------------------------------------- catalog


def put(root: Path, kind: Kind, name: str, text: str | None = None) -> Path:
    path = root / "configs" / kind / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"name: {Path(name).stem}\n" if text is None else text, encoding="utf-8")
    return path


def own(catalog: Catalog, kind: Kind) -> list[str]:
    return [entry.name for entry in catalog.entries(kind) if not entry.builtin]


def test_the_catalog_lists_the_files_of_each_kind_sorted_without_case(tmp_path: Path) -> None:
    for name in ("b.yaml", "A.yml", "c.json", ".hidden.yaml", "c.compose.yaml", "readme.md"):
        put(tmp_path, "providers", name, '{"name": "c"}' if name == "c.json" else None)
    put(tmp_path, "benchmarks", "deep/manifest.json", '{"name": "deep"}')
    put(tmp_path, "benchmarks", "deep/other.json", '{"name": "other"}')
    put(tmp_path, "providers", "deep/manifest.json", '{"name": "no"}')
    catalog = Catalog.load(tmp_path)
    assert own(catalog, "providers") == ["A", "b", "c"]
    assert own(catalog, "benchmarks") == ["deep"]
    assert own(catalog, "models") == own(catalog, "runs") == []


def test_an_empty_workspace_lists_the_shipped_configs(tmp_path: Path) -> None:
    catalog = Catalog.load(tmp_path)
    assert {"demo", "locomo", "longmemeval"} <= {entry.name for entry in catalog.benchmarks()}
    assert {"chroma", "mem0"} <= {entry.name for entry in catalog.providers()}
    assert [entry.name for entry in catalog.models()] == ["vllm"]
    assert all(entry.builtin and not entry.shadowed for kind in KINDS for entry in catalog.entries(kind))
    assert len(catalog.runs()) == 2


def test_a_checkout_as_workspace_lists_each_file_once() -> None:
    catalog = Catalog.load(builtin_root())
    for kind in KINDS:
        paths = [entry.path for entry in catalog.entries(kind)]
        assert len(paths) == len(set(paths))


def test_a_name_has_precedence_over_an_alias(tmp_path: Path) -> None:
    put(tmp_path, "providers", "one.yaml", "name: one\naliases: [two]\n")
    put(tmp_path, "providers", "two.yaml")
    assert Catalog.load(tmp_path).find("providers", "TWO").name == "two"


def test_a_name_of_two_files_is_an_error_that_names_both(tmp_path: Path) -> None:
    one = put(tmp_path, "providers", "one.yaml", "name: one\naliases: [same]\n")
    two = put(tmp_path, "providers", "two.yaml", "name: two\naliases: [SAME]\n")
    with pytest.raises(ConfigError) as caught:
        Catalog.load(tmp_path).find("providers", "same")
    assert str(caught.value) == f'two providers have the name or alias "same": {one} and {two}'
    assert caught.value.hint == "rename one of them"


@pytest.mark.parametrize("alias", ["two", "TWO", "chroma", "openai-memory", "bm25", "Local-Baseline"])
def test_an_alias_that_another_provider_has_is_an_error_with_its_line(tmp_path: Path, alias: str) -> None:
    one = put(tmp_path, "providers", "one.yaml", f"name: one\naliases: [mine, {alias}]\n")
    put(tmp_path, "providers", "two.yaml")
    catalog = Catalog.load(tmp_path)
    (problem,) = catalog.name_problems("providers", one)
    assert problem.message.startswith(f'the alias "{alias}" is already a name of ')
    assert problem.where is not None and problem.where.endswith("one.yaml:2:17")
    with pytest.raises(ConfigError, match="is already a name of"):
        catalog.provider("one")


def test_two_files_with_one_name_are_an_error_of_both(tmp_path: Path) -> None:
    paths = [put(tmp_path, "providers", "one.yaml"), put(tmp_path, "providers", "one.yml")]
    catalog = Catalog.load(tmp_path)
    for path, other in (paths, reversed(paths)):
        (problem,) = catalog.name_problems("providers", path)
        assert problem.message.startswith('the name "one" is also the name of ') and other.name in problem.message


def test_a_built_in_config_that_the_workspace_hides_takes_no_alias(tmp_path: Path) -> None:
    mine = put(
        tmp_path, "providers", "openai-vector-stores.yaml", "name: openai-vector-stores\naliases: [openai-memory]\n"
    )
    assert Catalog.load(tmp_path).name_problems("providers", mine) == []


def test_a_shadowed_shipped_file_is_listed_but_not_found_by_name(tmp_path: Path) -> None:
    mine = put(tmp_path, "providers", "chroma.yaml", "name: Chroma\n")
    catalog = Catalog.load(tmp_path)
    assert catalog.find("providers", "chroma").path == mine
    listed = [(entry.builtin, entry.shadowed) for entry in catalog.providers() if entry.name.lower() == "chroma"]
    assert listed == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("kind", "name", "message", "hint"),
    [
        (
            "providers",
            "chrmoa",
            'there is no provider "chrmoa"; did you mean "chroma"?',
            "list the known providers with: bench list providers",
        ),
        (
            "benchmarks",
            "zzzzzz",
            'there is no benchmark "zzzzzz"',
            "list the known benchmarks with: bench list benchmarks",
        ),
        (
            "runs",
            "nightli",
            'there is no run "nightli"; did you mean "nightly"?',
            "list the known runs with: bench list runs",
        ),
    ],
)
def test_an_unknown_name_is_an_error_with_a_suggestion(
    tmp_path: Path, kind: Kind, name: str, message: str, hint: str
) -> None:
    put(tmp_path, "runs", "nightly.yaml", "benchmarks: [demo]\n")
    with pytest.raises(UsageError) as caught:
        Catalog.load(tmp_path).find(kind, name)
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_a_provider_is_loaded_by_its_alias(tmp_path: Path) -> None:
    put(tmp_path, "providers", "mine.yaml", "name: mine\ntype: local\nadapter: builtin:bm25\naliases: [Ours]\n")
    assert Catalog.load(tmp_path).provider("OURS").name == "mine"


def test_extends_accepts_an_alias_and_refuses_an_unknown_name(tmp_path: Path) -> None:
    put(tmp_path, "benchmarks", "child.yaml", "extends: LongMemEval-S\nname: child\n")
    assert (
        Catalog.load(tmp_path).benchmark("child").data.local_path == "datasets/longmemeval/longmemeval_s_cleaned.json"
    )
    put(tmp_path, "benchmarks", "child.yaml", "extends: unknown-s\nname: child\n")
    with pytest.raises(ConfigError, match='"extends: unknown-s": there is no benchmark with this name'):
        Catalog.load(tmp_path).benchmark("child")


def test_the_catalog_reads_the_name_of_each_shipped_manifest() -> None:
    for path in SHIPPED.rglob("manifest.json"):
        tree = json.loads(path.read_text(encoding="utf-8"))
        assert _read_entry(path, "benchmarks", builtin=True).name == tree["name"] == path.parent.name
