"""Parsing of the blocks of a page: commands, outputs and files."""

from __future__ import annotations

from tests.docs.pages import Block, agrees, blocks, steps
from tests.rows import each_row

PAGE = """\
# Title

```yaml title="configs/a.yaml"
name: a
```

   ```sh
   bench list   # all benchmarks
   bench run \\
     --limit 3
   printf 'two
   lines'
   ```

```console
$ bench results x  # exit 2
error: there is no run "x"
...
$ bench list
```

```sh title="not tested: needs Docker"
docker compose up
```
"""


def commands(block: Block) -> list[str]:
    return [step.command for step in steps(block)]


def test_blocks_have_language_title_and_line() -> None:
    file, shell, session, docker = blocks(PAGE)
    assert (file.language, file.title, file.body, file.line) == ("yaml", "configs/a.yaml", "name: a\n", 3)
    assert shell.title == session.title == ""
    assert docker.untested == "needs Docker" and file.untested is None


def test_commands_continue_after_backslashes_and_in_open_quotes() -> None:
    _, shell, *_ = blocks(PAGE)
    assert commands(shell) == ["bench list   # all benchmarks", "bench run \\\n  --limit 3", "printf 'two\nlines'"]
    assert [step.line for step in steps(shell)] == [8, 9, 11]


def test_a_console_block_has_outputs_and_exit_codes() -> None:
    _, _, session, _ = blocks(PAGE)
    first, second = steps(session)
    assert (first.exit_code, first.output) == (2, ['error: there is no run "x"', "..."])
    assert (second.command, second.exit_code, second.output) == ("bench list", 0, [])


@each_row(
    ("shown", "printed", "same"),
    [
        (["a", "...", "z"], ["a", "z"], True),
        (["a", "...", "z"], ["a", "b", "c", "z"], True),
        (["a", "...", "z"], ["a", "b"], False),
        (["..."], [], True),
        ([], ["a"], False),
        ([" bm25   0.5 ..."], [" bm25  0.5   20  0 "], True),
        (["n ... 20 ..."], ["n 3 20"], True),
        (["n ... 20"], ["n 200"], False),
        (["(a|b)"], ["a"], False),
    ],
)
def test_dots_match_any_text_and_column_widths_are_ignored(shown: list[str], printed: list[str], same: bool) -> None:
    assert agrees(shown, printed) is same
