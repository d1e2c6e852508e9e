"""What people are told to type must run where they type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.program import program


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in an environment that is not on the path."""
    script = tmp_path / ".venv" / "bin" / "homespec"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [str(script), "serve"])
    return script


def test_one_that_is_not_on_the_path_is_named_as_it_was_called(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program() == str(script)
    monkeypatch.chdir(script.parents[2])
    monkeypatch.setattr("sys.argv", [".venv/bin/homespec", "serve"])
    assert program() == ".venv/bin/homespec"


def test_one_on_the_path_goes_by_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "homespec"


def test_another_one_on_the_path_is_not_meant(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "homespec"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert program() == str(script)


def test_a_module_goes_by_the_name_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/lib/homespec/__main__.py"])
    assert program() == "homespec"
