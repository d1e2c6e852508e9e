"""`homespec doctor` as people run it, against nothing and against a real daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from homespec.errors import ExitCode
from tests.daemons import run_command, running

pytestmark = pytest.mark.process


def by_name(stdout: str) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads(stdout)["checks"]}


def test_without_a_daemon_it_tells_the_facts_of_the_installation(tmp_path: Path) -> None:
    done = run_command(tmp_path, "doctor", "--url", "http://127.0.0.1:9", environment={"HOMESPEC_PORT": "0"})
    assert done.code == ExitCode.OK
    assert "ok    library        llama-cpp-python 0.3.36" in done.stdout
    assert "this build runs grammar, suffix, ngram, draft, eagle3, mtp, dflash, dspark" in done.stdout
    assert "warn  daemon         none answers at http://127.0.0.1:9" in done.stdout
    assert "→ start it: homespec serve" in done.stdout


def test_a_report_for_a_bug_has_every_check_and_nothing_private(tmp_path: Path) -> None:
    home = tmp_path / "home" / "ada"
    home.mkdir(parents=True)
    environment = {
        "HOME": str(home),
        "HOMESPEC_API_KEY": "sk-secret",
        "HOMESPEC_MODEL": str(home / "gone.gguf"),
        "HOMESPEC_PORT": "0",
        "LOGNAME": "ada",
    }
    done = run_command(tmp_path, "doctor", "--json", "--url", "http://127.0.0.1:9", environment=environment)
    assert done.code == ExitCode.FAILURE
    checks = by_name(done.stdout)
    assert checks["model"]["text"] == "~/gone.gguf does not exist"
    assert checks["model"]["remedy"] == "check the path, or take a name that 'homespec models' lists"
    for word in ("ada", "sk-secret"):
        assert word not in done.stdout
    assert {"library", "processor", "drafters", "configuration", "memory", "disk", "clock", "service"} <= checks.keys()


def test_with_a_daemon_it_asks_it_and_compares_plain_and_drafted_answers(tmp_path: Path) -> None:
    with running(tmp_path, "--demo") as daemon:
        done = run_command(tmp_path, "doctor", "--json", "--url", daemon.url, environment={"HOMESPEC_DEMO": "true"})
        checks = by_name(done.stdout)
        assert checks["daemon"]["text"].startswith("ready at")
        assert "ngram" in checks["drafting"]["text"]
        assert "fits" not in checks, "the daemon holds it already"
        options = ("--prompts", "3", "--max-tokens", "24", "--drafter", "ngram")
        environment = {"HOMESPEC_PORT": daemon.url.rpartition(":")[2]}
        done = run_command(tmp_path, "doctor", "--divergence", *options, environment=environment)
        assert done.code == ExitCode.OK
        assert done.stdout.splitlines()[-1] == "3 of 3 the same, 0 differ by rounding, 0 differ by more"
        options = ("--prompts", "1", "--max-tokens", "4", "--drafter", "draft")
        done = run_command(tmp_path, "doctor", "--divergence", "--json", "--url", daemon.url, *options)
        assert done.code == ExitCode.FAILURE
        found = json.loads(done.stdout)
        assert (found["is_ok"], [each["num_drafted"] for each in found["comparisons"]]) == (False, [0])
        done = run_command(tmp_path, "doctor", "--divergence", "--url", daemon.url, *options)
        assert done.code == ExitCode.FAILURE
        assert "nothing was drafted, so this proves nothing (draft is off: no draft model configured" in done.stdout


def test_comparing_needs_a_daemon(tmp_path: Path) -> None:
    done = run_command(tmp_path, "doctor", "--divergence", "--url", "http://127.0.0.1:9")
    assert done.code == ExitCode.UNREACHABLE
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
