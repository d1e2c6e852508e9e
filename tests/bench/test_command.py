"""`homespec bench` as people run it: a process of its own against real daemons. Speeds are not looked at."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from homespec.errors import ExitCode
from tests.daemons import READY_TIMEOUT_S, Daemon, FinishedCommand, clean_environment, eventually, run_command, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

# Two threads that wait for each other crawl on a box whose cores are taken.
ONE_THREAD = {"HOMESPEC_THREADS": "1"}
JUDGED = (ExitCode.OK, ExitCode.SLOWER)
"""Which of them is a matter of speed."""


@pytest.fixture(scope="module")
def daemon(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A target with a drafter that is always right."""
    folder = tmp_path_factory.mktemp("bench")
    flags = ("--draft", str(models.markov_drafter), "--ctx", "1024", "--threads", "1")
    with running(folder, str(models.markov), *flags) as running_daemon:
        yield running_daemon


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    lines = [
        {"question_id": f"{category}-{index}", "category": category, "turns": [f"{category} {index}?", "More."][:turns]}
        for category, turns in (("one", 1), ("two", 2))
        for index in range(6)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def bench(folder: Path, *arguments: str) -> FinishedCommand:
    return run_command(folder, "bench", *arguments)


def measured(done: FinishedCommand) -> Any:
    assert done.code in JUDGED, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


SHORT = ("--max-tokens", "24")


def test_a_daemon_is_measured_plain_and_drafted(daemon: Daemon, prompts: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    arguments = ("--url", daemon.url, "--prompts", str(prompts), *SHORT, "--drafter", "draft", "--html", str(page))
    body = measured(bench(tmp_path, *arguments, "--json", "-"))
    assert [group["name"] for group in body["categories"]] == ["one", "two"]
    plain, drafted = body["overall"]["sides"]["plain"], body["overall"]["sides"]["draft"]
    assert plain["num_answers"] == drafted["num_answers"] == 12
    assert plain["num_tokens"] == drafted["num_tokens"]
    assert {turn["num_generated"] for trial in body["trials"] for turn in trial["turns"]} == {24}
    assert (plain["drafted"], plain["acceptance_length"], plain["rows_per_token"]) == (0, 1.0, 1.0)
    assert drafted["acceptance_rate"] == 1.0
    assert drafted["acceptance_length"] > 3
    assert drafted["peak_rss_bytes"] > 0
    assert 0 < drafted["drafters"]["draft"] <= drafted["rounds"]
    [compared] = body["overall"]["comparisons"]
    assert compared["num_identical"] == compared["num_pairs"] == 12
    assert compared["low"] <= compared["ratio"] <= compared["high"]
    assert body["notes"] == []
    assert all(turn["num_computed_prompt"] > 0 for trial in body["trials"] for turn in trial["turns"])
    assert {turn["num_first_tokens"] for trial in body["trials"] for turn in trial["turns"]} == {1}
    assert ET.fromstring(page.read_text().removeprefix("<!DOCTYPE html>")).tag == "html"


def test_neither_side_nor_the_next_run_finds_a_prompt_in_the_cache(
    daemon: Daemon, prompts: Path, tmp_path: Path
) -> None:
    """Only a second turn may find its first one."""
    arguments = (
        "--url",
        daemon.url,
        "--prompts",
        str(prompts),
        *SHORT,
        "--categories",
        "one",
        "--per-category",
        "3",
        "--json",
        "-",
    )
    for _ in range(2):
        before = daemon.status()["counters"]["cached_tokens"]
        measured(bench(tmp_path, *arguments))
        shared_template = 6 * 16
        assert daemon.status()["counters"]["cached_tokens"] - before <= shared_template


def test_a_sweep_has_a_side_for_every_d(daemon: Daemon, prompts: Path, tmp_path: Path) -> None:
    arguments = ("--prompts", str(prompts), *SHORT, "--per-category", "2", "--drafter", "draft", "--sweep", "D=0,2,5")
    done = bench(tmp_path, "--url", daemon.url, *arguments)
    assert done.code == ExitCode.OK
    assert "the fastest D of draft: draft D=" in done.stdout
    for name in ("draft D=2", "draft D=5", "acceptance length over D"):
        assert name in done.stdout
    assert "D=0" not in done.stdout


def test_another_server_is_compared_with_tokens_of_our_count(
    models: Models, daemon: Daemon, prompts: Path, tmp_path: Path
) -> None:
    arguments = ("--url", daemon.url, "--prompts", str(prompts), *SHORT, "--categories", "one", "--json", "-")
    with running(tmp_path, str(models.markov), "--ctx", "1024", "--threads", "1") as other:
        body = measured(bench(tmp_path, *arguments, "--against", f"{other.url}/v1"))
        eventually(lambda: other.status()["counters"]["requests"] == 2 + 6, "its share is counted")
    compared = {(each["side"], each["baseline"]) for each in body["overall"]["comparisons"]}
    assert compared == {("auto", "plain"), ("plain", "other server"), ("auto", "other server")}
    assert body["overall"]["sides"]["other server"]["num_tokens"] == body["overall"]["sides"]["plain"]["num_tokens"]
    assert body["overall"]["sides"]["other server"]["peak_rss_bytes"] is None


def test_requests_of_others_are_noticed(daemon: Daemon, prompts: Path, tmp_path: Path) -> None:
    arguments = ("--url", daemon.url, "--prompts", str(prompts), "--categories", "one", "--max-tokens", "400")
    with Running(tmp_path, *arguments, "--json", "-") as run:
        run.wait_for_requests(daemon.url, 4)
        daemon.complete("hello", 2)
        body = json.loads(run.wait_out())
    assert any("1 request of others" in note for note in body["notes"])


def test_a_refused_prompt_counts_nowhere_and_is_told(daemon: Daemon, tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        json.dumps({"question_id": "long", "category": "x", "turns": ["word " * 400]})
        + "\n"
        + json.dumps({"question_id": "short", "category": "x", "turns": ["word"]})
    )
    body = measured(bench(tmp_path, "--url", daemon.url, "--prompts", str(path), *SHORT, "--json", "-"))
    assert [failure["question_id"] for failure in body["failures"]] == ["long", "long"]
    assert {each["question_id"] for each in body["trials"]} == {"short"}
    assert any("1 prompt was refused by plain" in note for note in body["notes"])
    assert not any("of others" in note for note in body["notes"])


def test_a_model_gets_a_daemon_of_its_own_that_is_gone_afterwards(
    models: Models, prompts: Path, tmp_path: Path
) -> None:
    arguments = (str(models.markov), "--draft", str(models.markov_drafter), "--drafter", "draft", *SHORT)
    with Running(tmp_path, *arguments, "--prompts", str(prompts), "--per-category", "2", "--json", "-") as run:
        own = run.wait_for_family()
        body = json.loads(run.wait_out())
    assert body["overall"]["sides"]["draft"]["acceptance_length"] > 3
    assert not [process for process in own if process.is_running()]


def test_an_interrupt_tells_what_there_is_and_ends_the_daemon(models: Models, prompts: Path, tmp_path: Path) -> None:
    arguments = (str(models.markov), "--prompts", str(prompts), "--categories", "one", "--max-tokens", "600")
    with Running(tmp_path, *arguments, "--json", "-") as run:
        own = run.wait_for_family()
        run.wait_for_requests(run.url_of(own), 6)
        run.process.send_signal(signal.SIGINT)
        body = json.loads(run.wait_out())
    assert run.process.returncode == 128 + signal.SIGINT
    assert body["ended_early"] == "interrupted"
    assert 0 < len(body["trials"]) < 12
    assert not [process for process in own if process.is_running()]


def test_a_daemon_that_dies_in_between_is_told_with_its_code(models: Models, prompts: Path, tmp_path: Path) -> None:
    with running(tmp_path, str(models.markov), "--ctx", "1024", "--threads", "1") as daemon:
        arguments = ("--url", daemon.url, "--prompts", str(prompts), "--categories", "one", "--max-tokens", "900")
        with Running(tmp_path, *arguments, "--json", "-") as run:
            run.wait_for_requests(daemon.url, 6)
            daemon.signal(signal.SIGTERM)
            body = json.loads(run.wait_out())
    assert body["ended_early"]
    assert run.process.returncode not in JUDGED


@pytest.mark.parametrize(
    ("arguments", "code", "fragments"),
    [
        pytest.param(
            ["--url", "http://127.0.0.1:9"], ExitCode.UNREACHABLE, ["http://127.0.0.1:9", "refused"], id="no daemon"
        ),
        pytest.param(["--categories", "maths"], ExitCode.CONFIG, ["'maths'", "'math'", "coding"], id="category"),
        pytest.param(["--sweep", "D=1,99"], ExitCode.CONFIG, ["--sweep", "99", "16"], id="D out of range"),
        pytest.param(["--max-tokens", "0"], ExitCode.USAGE, ["--max-tokens", "1"], id="no tokens"),
        pytest.param(["--draft", "x.gguf"], ExitCode.CONFIG, ["--draft", "MODEL"], id="draft without a model"),
        pytest.param(["nope.gguf"], ExitCode.MODEL, ["nope.gguf", "does not exist"], id="no model"),
    ],
)
def test_bad_input_is_one_line_and_a_code(
    tmp_path: Path, arguments: list[str], code: ExitCode, fragments: list[str]
) -> None:
    done = bench(tmp_path, *arguments)
    for fragment in fragments:
        assert fragment in done.complaint
    assert done.code == code


def test_a_malformed_prompts_file_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question_id": 1, "category": "x", "turns": ["a"]}\n{"question_id": 2, "category": "x"}\n')
    done = bench(tmp_path, "--prompts", str(path))
    assert f"{path}, line 2" in done.complaint
    assert done.code == ExitCode.CONFIG


def test_an_unknown_drafter_is_refused_by_the_daemon(daemon: Daemon, prompts: Path, tmp_path: Path) -> None:
    done = bench(tmp_path, "--url", daemon.url, "--prompts", str(prompts), "--drafter", "psychic")
    assert "psychic" in done.complaint or "speculative.mode" in done.complaint
    assert done.code == ExitCode.FAILURE


class Running:
    """A bench while it runs."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "homespec", "bench", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**clean_environment(folder), **ONE_THREAD},
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._family():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.kill()
        self.process.communicate()

    def wait_out(self) -> bytes:
        """Its stdout, after its end."""
        stdout, self.stderr = self.process.communicate(timeout=READY_TIMEOUT_S)
        return stdout

    def wait_for_family(self) -> list[psutil.Process]:
        """Its daemon and the daemon's engine."""

        def both() -> list[psutil.Process] | None:
            assert self.process.poll() is None, self.process.communicate()
            family = self._family()
            return family if len(family) >= 2 else None

        return eventually(both, "the bench has a daemon with an engine", READY_TIMEOUT_S)

    def url_of(self, family: list[psutil.Process]) -> str:
        # Between its fork and its exec a child of the daemon has the daemon's command line.
        command = next(line for line in (process.cmdline() for process in family) if "serve" in line)
        return f"http://127.0.0.1:{command[command.index('--port') + 1]}"

    def wait_for_requests(self, url: str, more: int) -> None:
        """Until the daemon has had so many more."""

        def count() -> int | None:
            with suppress(httpx.TransportError):
                return int(httpx.get(f"{url}/status", timeout=30).json()["counters"]["requests"])
            return None

        before = count() or 0
        eventually(lambda: (count() or 0) >= before + more, "the bench asks", READY_TIMEOUT_S)

    def _family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []
