"""Whatever is sent to any endpoint, the answer is one that /openapi.json documents, and the daemon stays as it was.

The requests are made from the document itself, every operation of it: each boundary of each field, then random ones.
SCHEMA_EXAMPLES=100 sends more of the latter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.daemons import Daemon, eventually, running
from tests.server.conftest import REPEATABLE_FLAGS

pytestmark = [pytest.mark.process, pytest.mark.real]

KITS = Path(__file__).parent.parent / "kits"
EXAMPLES = os.environ.get("SCHEMA_EXAMPLES", "10")
"""Random requests for each operation."""
NEVER_ANSWERED = {("DELETE", "/admin/requests/{request_id}"), ("GET", "/v1/models/{name}")}
"""Made-up names have nothing."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The demo model, which also embeds, with every operation allowed to change what it can."""
    environment = {"HOMESPEC_EMBEDDINGS": "mean", "HOMESPEC_CACHED_PREFIXES": "1"}
    with running(tmp_path_factory.mktemp("schema"), "--demo", *REPEATABLE_FLAGS, environment=environment) as daemon:
        yield daemon


@pytest.mark.timeout(900)  # half a minute, on cores that nothing else uses
def test_answers_are_documented_and_nothing_is_harmed(daemon: Daemon, tmp_path: Path) -> None:
    golden, engine_pid = daemon.golden(), daemon.engine_pid
    report = tmp_path / "requests.json"
    fuzz(daemon.url, report)
    assert daemon.alive
    assert daemon.engine_pid == engine_pid
    assert daemon.golden() == golden
    eventually(daemon.is_idle, "nothing is left over")
    assert "Traceback" not in daemon.log()
    assert unanswered(daemon.url, report) == NEVER_ANSWERED


def test_the_document_says_what_is_sent_and_no_more(daemon: Daemon) -> None:
    document = httpx.get(f"{daemon.url}/openapi.json").json()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    for responses in (operation["responses"] for operation in operations):
        assert "403" in responses
        assert "422" not in responses
        assert "503" not in responses or responses["503"]["headers"]["Retry-After"]["required"]
    assert not any("Validation" in name for name in document["components"]["schemas"])
    temperature = document["components"]["schemas"]["ChatRequest"]["properties"]["temperature"]
    assert {"type": "null"} in temperature["anyOf"]


def fuzz(url: str, report: Path) -> None:
    """Fails with all that schemathesis found, and how to repeat it."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(KITS / "fuzzing.toml"), "run"]
    options = ["--max-examples", EXAMPLES, "--report", "har", "--report-har-path", str(report)]
    finished = subprocess.run(
        [*command, f"{url}/openapi.json", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=report.parent,
        env={**os.environ, "SCHEMATHESIS_HOOKS": str(KITS / "fuzzing.py"), "NO_COLOR": "1"},
        check=False,
    )
    assert finished.returncode == 0, finished.stdout


def unanswered(url: str, report: Path) -> set[tuple[str, str]]:
    """Operations that were never answered with 200: what is always refused tests little."""
    paths: dict[str, Any] = httpx.get(f"{url}/openapi.json").json()["paths"]
    entries = json.loads(report.read_text())["log"]["entries"]
    answered = {
        (entry["request"]["method"], urlsplit(entry["request"]["url"]).path)
        for entry in entries
        if entry["response"]["status"] == 200
    }
    return {(method.upper(), path) for path, methods in paths.items() for method in methods} - answered
