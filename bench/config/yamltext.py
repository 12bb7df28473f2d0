"""Parse one YAML 1.2 document into plain values, and record the line and column of each key and element.

Repeated keys, tabs, tags, merge keys, recursive aliases, and aliases that expand to more than 10,000 nodes are errors.
Keys are always text: ``1:`` and ``"1":`` are the same key. Dates stay text::

    tree, places = parse_yaml("data:\\n  type: local\\n", "demo.yaml")
    places[("data", "type")]     # (2, 3)
"""

from __future__ import annotations

from functools import lru_cache

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from bench.config.jsontext import MAX_DEPTH, SURROGATE, SURROGATE_MESSAGE, Places, TreePath, position, shortened
from bench.errors import ConfigError

MAX_NODES = 10_000
_TAG = "tag:yaml.org,2002:"
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class _TreeBuilder:
    """A builder of plain values from YAML nodes. It counts the nodes, so that aliases cannot expand without limit."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.places: Places = {}
        self.nodes = 0
        self.seen: set[int] = set()
        self.aliased = False

    def error(self, node: Node, message: str, hint: str) -> ConfigError:
        mark = node.start_mark
        return ConfigError(message, where=f"{self.label}:{mark.line + 1}:{mark.column + 1}", hint=hint)

    def value(self, node: Node, path: TreePath) -> object:
        self.count(node, path)
        match node:
            case MappingNode():
                self.refuse_tag(node, "map")
                return self.mapping(node, path)
            case SequenceNode():
                self.refuse_tag(node, "seq")
                return [self.element(child, (*path, index)) for index, child in enumerate(node.value)]
            case ScalarNode():
                return self.scalar(node)
            case _:
                raise self.error(node, "this kind of YAML node is not supported", "use maps, lists and scalars")

    def refuse_tag(self, node: Node, plain: str) -> None:
        tag = str(node.tag).removeprefix(_TAG)
        if tag != plain:
            raise self.error(node, f"the YAML tag {tag} is not supported", "use plain YAML values")

    def count(self, node: Node, path: TreePath) -> None:
        self.nodes += 1
        self.aliased = self.aliased or id(node) in self.seen
        self.seen.add(id(node))
        if len(path) > MAX_DEPTH:
            if not self.aliased:
                raise self.error(node, f"the values are nested deeper than {MAX_DEPTH} levels", "flatten the file")
            raise self.error(
                node, f"the values are nested deeper than {MAX_DEPTH} levels", "write the values out, without aliases"
            )
        if self.aliased and self.nodes > MAX_NODES:
            raise self.error(
                node, f"the YAML aliases expand to more than {MAX_NODES} nodes", "write the values out, without aliases"
            )

    def element(self, node: Node, path: TreePath) -> object:
        self.place(path, node)
        return self.value(node, path)

    def place(self, path: TreePath, node: Node) -> None:
        self.places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)

    def mapping(self, node: MappingNode, path: TreePath) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, child in node.value:
            key = self.key(key_node)
            if key in found:
                line, _ = self.places[*path, key]
                raise self.error(key_node, f'repeated key "{key}" (first on line {line})', "keep one of the two")
            self.place((*path, key), key_node)
            found[key] = self.value(child, (*path, key))
        return found

    def key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise self.error(node, "a key must be text", "put the key in quotes")
        if node.tag == f"{_TAG}merge":
            raise self.error(node, 'merge keys ("<<") are not supported', 'write the values out, or use "extends"')
        return self.text(node)

    def text(self, node: ScalarNode) -> str:
        text = str(node.value)
        if SURROGATE.search(text):
            raise self.error(node, SURROGATE_MESSAGE, "write the character itself, or both escapes of its pair")
        return text

    def scalar(self, node: ScalarNode) -> object:
        text = self.text(node)
        match str(node.tag).removeprefix(_TAG):
            case "str" | "timestamp":
                return text
            case "null" if text in _NULL:
                return None
            case "bool" if text in _BOOLS:
                return _BOOLS[text]
            case "null" | "bool" as tag:  # an explicit tag, or a word of YAML 1.1
                raise self.error(node, f'"{text}" is not a YAML 1.2 {tag}', "write true, false or null, or use quotes")
            case "int":
                return int(text.replace("_", ""), 0) if text.lstrip("+-")[:2] in ("0x", "0o") else self.integer(node)
            case "float":
                return self.number(node)
            case tag:
                raise self.error(node, f"the YAML tag {tag} is not supported", "use plain YAML values")

    def integer(self, node: ScalarNode) -> int:
        try:
            return int(node.value)
        except ValueError:
            raise self.error(
                node, f"{shortened(node.value)} is not a number", "put the value in quotes if it is a text"
            ) from None

    def number(self, node: ScalarNode) -> float:
        try:
            value = float(node.value)
        except ValueError:
            value = float("nan")
        if value != value or value in (float("inf"), float("-inf")):
            raise self.error(
                node, f"{shortened(node.value)} is not a finite number", "put the value in quotes if it is a text"
            )
        return value


def _refuse_tabs(text: str, label: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line:
            raise ConfigError(
                "a tab character is not allowed here",
                where=f"{label}:{number}:{line.index(chr(9)) + 1}",
                hint='use spaces; inside text write "\\t" in double quotes',
            )


@lru_cache(maxsize=128)
def _nodes(text: str) -> Node | None:
    """Return the root node of a YAML text; None if the text is empty.

    Recent results are cached, because one command can read a file several times.
    """
    node: Node | None = YAML(typ="safe", pure=True).compose(text)
    return node


def _compose(text: str, label: str) -> Node | None:
    try:
        node = _nodes(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{label}:{mark.line + 1}:{mark.column + 1}" if mark else label
        problem = str(error.problem or error.context or "not valid YAML").strip()
        text = f"{error.context} {problem}" if problem.startswith("but ") else problem
        raise ConfigError(text, where=where, hint="correct the YAML") from error
    except ReaderError as error:
        line, column = position(text, text.find(chr(error.character)))
        problem = f"the character U+{error.character:04X} is not allowed"
        raise ConfigError(
            problem, where=f"{label}:{line}:{column}", hint="remove it, or escape it in quotes"
        ) from error
    except (YAMLError, ValueError) as error:
        raise ConfigError(str(error).splitlines()[0], where=label, hint="correct the YAML") from error
    except RecursionError as error:
        raise ConfigError(
            f"the values are nested deeper than {MAX_DEPTH} levels", where=label, hint="flatten the file"
        ) from error
    return node


def parse_yaml(text: str, label: str) -> tuple[object, Places]:
    """Parse a YAML text; return the value, and a dict from key path to (line, column).

    ``label`` is the name of the file in errors.

    Raises:
        ConfigError: the YAML is invalid, or uses a feature that is rejected; the error has its line and column.
    """
    _refuse_tabs(text, label)
    node = _compose(text, label)
    builder = _TreeBuilder(label)
    return (None if node is None else builder.value(node, ())), builder.places
