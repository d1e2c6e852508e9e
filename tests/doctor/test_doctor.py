"""`homespec doctor` as people run it, against nothing and against a real daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.errors import ExitCode
from tests.daemons import run_command, running

pytestmark = pytest.mark.process


def test_without_a_daemon_it_tells_the_facts_of_the_installation(tmp_path: Path) -> None:
    done = run_command(tmp_path, "doctor", "--url", "http://127.0.0.1:9")
    assert done.code == ExitCode.OK
    assert "llama-cpp-python   0.3.36" in done.stdout
    assert "all that homespec binds are there" in done.stdout
    for kind in ("draft", "eagle3", "mtp", "dflash", "dspark"):
        assert f"can run {kind:10} yes" in done.stdout
    assert "not reached at http://127.0.0.1:9" in done.stdout


def test_with_a_daemon_it_compares_plain_and_drafted_answers(tmp_path: Path) -> None:
    with running(tmp_path, "--demo") as daemon:
        facts = run_command(tmp_path, "doctor", "--url", daemon.url)
        assert "ready at" in facts.stdout
        assert "drafter ngram      ready" in facts.stdout
        options = ("--prompts", "2", "--max-tokens", "24", "--drafter", "ngram")
        done = run_command(tmp_path, "doctor", "--divergence", "--url", daemon.url, *options)
        assert done.code == ExitCode.OK
        assert done.stdout.splitlines()[-1] == "2 of 2 the same, 0 differ by rounding, 0 differ by more"


def test_comparing_needs_a_daemon(tmp_path: Path) -> None:
    done = run_command(tmp_path, "doctor", "--divergence", "--url", "http://127.0.0.1:9")
    assert done.code == ExitCode.UNREACHABLE
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
