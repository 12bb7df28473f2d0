"""The fenced blocks of a page, and how they are tested.

| block | meaning |
|---|---|
| ``sh`` | commands, run in order in the page's own workspace; each must succeed |
| ``console`` | ``$ command`` and what it prints, compared; ``...`` matches anything, ``# exit N`` for a failure |
| ``python`` | a script, run in the workspace |
| any language with ``title="PATH"`` | a file; it is written to the workspace |
| ``sh title="not tested: REASON"`` | commands that cannot run here, and why |
| anything else | only shown |

``RUN_ID`` in a command is the newest run of the workspace.

Example::

    [block.language for block in blocks(Path("docs/tutorial.md").read_text())]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[ ]*(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
NOT_TESTED = "not tested: "


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block; ``line`` is that of its first line in the page."""

    language: str
    title: str
    body: str
    line: int

    @property
    def untested(self) -> str | None:
        """The reason why its commands are not run, if any."""
        return self.title.removeprefix(NOT_TESTED) if self.title.startswith(NOT_TESTED) else None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of a page and what it must do."""

    command: str
    line: int
    exit_code: int = 0
    output: list[str] | None = field(default=None)
    """lines that it prints, with ``...``; None = anything"""


def blocks(page: str) -> Iterator[Block]:
    """Yield all fenced blocks in order."""
    for found in FENCE.finditer(page):
        title = re.search(r'title="([^"]*)"', found["info"])
        indent = re.compile(f"^{found['indent']}", re.M)
        yield Block(
            language=found["language"],
            title=title[1] if title else "",
            body=indent.sub("", found["body"]),
            line=page.count("\n", 0, found.start()) + 1,
        )


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a block; a backslash at the end or an open quote continues a line."""
    if block.language == "console":
        yield from _session(block)
        return
    if block.language == "python":
        yield Step(command=f"python - <<'END'\n{block.body}END", line=block.line)
        return
    for line, command in _joined(block.body, block.line + 1):
        yield Step(command=command, line=line, exit_code=_exit_code(command))


def _session(block: Block) -> Iterator[Step]:
    head, *parts = re.split(r"^\$ ", block.body, flags=re.M)
    line = block.line + 1 + head.count("\n")
    for part in parts:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command[:-1]}{more.strip()}"
        yield Step(command=command, line=line, exit_code=_exit_code(command), output=output.rstrip("\n").splitlines())
        line += part.count("\n")


def _joined(text: str, line: int) -> Iterator[tuple[int, str]]:
    begun, held = line, ""
    for number, row in enumerate(text.splitlines(), line):
        begun = begun if held else number
        held = f"{held}\n{row}" if held else row
        if held.endswith("\\") or held.count("'") % 2:
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            yield begun, held
        held = ""


def _exit_code(command: str) -> int:
    found = re.search(r"# exit (\d+)", command)
    return int(found[1]) if found else 0


def agrees(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Tell whether the output matches: a line ``...`` matches any lines, ``...`` in a line any text."""
    if not expected:
        return not printed
    first, *rest = expected
    if first.strip() == "...":
        return any(agrees(rest, printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and _same(first, printed[0]) and agrees(rest, printed[1:])


def _same(expected: str, printed: str) -> bool:
    """Compare two lines; the width of columns does not matter."""
    parts = re.split(r"\s*\.\.\.\s*", " ".join(expected.split()))
    pattern = ".*".join(map(re.escape, parts))
    return re.fullmatch(pattern, " ".join(printed.split())) is not None
