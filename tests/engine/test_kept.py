"""What earlier runs have measured: a file that may be missing, broken, or not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.engine.kept import Kept


def test_a_value_is_found_again(tmp_path: Path) -> None:
    Kept("costs", tmp_path).put("key", [1, 2])
    assert Kept("costs", tmp_path).get("key") == [1, 2]
    assert Kept("costs", tmp_path).get("other") is None


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "3", '"text"', "null"])
def test_a_file_that_is_broken_is_written_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "costs.json").write_text(text)
    kept = Kept("costs", tmp_path)
    assert kept.get("key") is None
    kept.put("key", 1)
    assert kept.get("key") == 1


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    kept = Kept("costs", file)
    kept.put("key", 1)
    assert kept.get("key") is None
