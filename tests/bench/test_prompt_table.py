"""Prompts in parquet, with pyarrow and without it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from homespec.bench.prompt_table import conversion
from homespec.bench.prompts import Prompt, load_prompts, parse_prompts
from homespec.errors import ConfigError

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
PUBLISHED = "test-00000-of-00001.parquet"
ROWS = [
    {"question_id": "a", "category": "qa", "turns": ["Why?", "¿Y él?"], "multiturn": True, "difficulty": None},
    {"question_id": "b", "category": "math", "turns": ["2 + 2?"], "multiturn": False, "difficulty": "easy"},
]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow_parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def test_parquet_holds_the_same_prompts_as_lines(tmp_path: Path) -> None:
    found = load_prompts(written(tmp_path / "set.parquet", ROWS))
    assert found.prompts == (Prompt("a", "qa", ("Why?", "¿Y él?")), Prompt("b", "math", ("2 + 2?",)))


@pytest.mark.parametrize(
    ("rows", "fragments"),
    [
        ([{"question_id": "a", "category": "qa"}], ["no column turns", "question_id, category"]),
        ([ROWS[0], {**ROWS[1], "turns": None}], ["row 2", "turns"]),
        ([ROWS[0], {**ROWS[1], "turns": []}], ["row 2", "empty"]),
        ([ROWS[0], {**ROWS[1], "question_id": "a"}], ["row 1 and row 2", "'a'"]),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, rows: list[dict[str, Any]], fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_prompts(written(tmp_path / "set.parquet", rows))
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_file_that_was_cut_off_is_refused_in_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "set.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=r"set\.parquet cannot be read as parquet: .*fetch it again") as caught:
        load_prompts(path)
    assert "\n" not in str(caught.value)


def test_what_is_parquet_by_name_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"begins with b'vers'.*no parquet file"):
        parse_prompts(b"version https://git-lfs.github.com/spec/v1", "set.parquet")


def test_without_pyarrow_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError) as caught:
        parse_prompts(b"PAR1...", "/home/me/my set.parquet")
    assert "pip install pyarrow" in str(caught.value)
    assert str(caught.value).endswith("'/home/me/my set.parquet' > '/home/me/my set.jsonl'")


def test_the_documented_conversion_works_as_it_stands(tmp_path: Path) -> None:
    [line] = [line for line in DOCUMENT.read_text("utf-8").splitlines() if "pyarrow.parquet" in line]
    assert line == conversion(PUBLISHED)
    path = written(tmp_path / PUBLISHED, ROWS)
    here = line.replace("python3", shlex.quote(sys.executable), 1)
    subprocess.run(here, shell=True, cwd=tmp_path, check=True, timeout=60)
    assert load_prompts(path.with_suffix(".jsonl")).prompts == load_prompts(path).prompts
