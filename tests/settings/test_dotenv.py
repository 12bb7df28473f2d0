"""The file ``.env``: forms of a line, and errors without values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import ConfigError
from bench.settings import read_dotenv
from tests.rows import each_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".env"


@each_row(
    ("line", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("  A = 1  ", {"A": "1"}),
        ("export A=1", {"A": "1"}),
        ("a_1=x", {"a_1": "x"}),
        ("A=", {"A": ""}),
        ("A=x=y", {"A": "x=y"}),
        ("A=#1", {"A": "#1"}),
        ("A='x y'", {"A": "x y"}),
        ('A="x y"', {"A": "x y"}),
        ("A='x", {"A": "'x"}),
        ("A=\"x'", {"A": "\"x'"}),
        ("A=''", {"A": ""}),
        ("A=x y # the key", {"A": "x y"}),
        ("A=x#1", {"A": "x#1"}),
        ("A='x # y' # 'z'", {"A": "x # y"}),
        ("A='", {"A": "'"}),
        ("A=ünïcödé", {"A": "ünïcödé"}),
        ("A=${B}", {"A": "${B}"}),
        ("# A=1", {}),
        ("", {}),
        ("A=1\nA=2", {"A": "2"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("\ufeffA=1", {"A": "1"}),
        ("A=x\u2028y\x0bz", {"A": "x\u2028y\x0bz"}),
    ],
)
def test_read_dotenv_reads_each_form_of_a_line(tmp_path: Path, line: str, expected: dict[str, str]) -> None:
    path = tmp_path / ".env"
    path.write_bytes(line.encode())
    assert read_dotenv(path) == expected


@pytest.mark.parametrize(
    "line", ["hunter2", "1A=hunter2", "A B=hunter2", "=hunter2", "A-B=hunter2", "export=x=hunter2 y\nx"]
)
def test_an_invalid_line_is_reported_without_its_value(path: Path, line: str) -> None:
    path.write_text(f"# keys\nGOOD=1\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_dotenv(path)
    number = 4 if line.endswith("x") and "\n" in line else 3
    assert str(caught.value) == f"{path}:{number}:1: this line is not NAME=value"
    assert caught.value.hint == "write NAME=value"
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_UTF_8_is_a_ConfigError(path: Path) -> None:
    path.write_bytes(b"A=\xff\n")
    with pytest.raises(ConfigError) as caught:
        read_dotenv(path)
    assert str(caught.value) == f"{path}: the file cannot be read"
    assert caught.value.hint == "check the permissions of the file, and save the file as UTF-8"


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,9}", fullmatch=True), st.from_regex(r"[!-~]{0,12}", fullmatch=True)
    )
)
def test_written_values_are_read_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("env") / ".env"
    path.write_text("".join(f'{name}="{value}"\n' for name, value in values.items()), encoding="utf-8")
    assert read_dotenv(path) == values
