"""A whole bench between a daemon and another server that breaks in every way; both are doubles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homespec.bench import patience
from homespec.bench.command import bench
from homespec.bench.options import Options
from homespec.errors import ConfigError, ExitCode, HomespecError
from tests.bench.servers import CUT, answers, first_turn, on_prompt, refusal
from tests.client.daemon_double import Cut, DaemonDouble, Reply

NUM_PROMPTS = 10


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_seconds: float) -> None:
        pass

    monkeypatch.setattr(patience, "asyncio", SimpleNamespace(sleep=sleep))


@pytest.fixture
def daemon() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        answers(double)
        yield double


@pytest.fixture
def other() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        answers(double)
        yield double


@pytest.fixture
def options(daemon: DaemonDouble, other: DaemonDouble, tmp_path: Path) -> Options:
    path = tmp_path / "prompts.jsonl"
    rows = [{"question_id": f"q{i}", "category": "qa", "turns": [f"Question {i}?"]} for i in range(NUM_PROMPTS)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return Options(url=daemon.url, against=f"{other.url}/v1", prompts=path, json=str(tmp_path / "run.json"))


def report(options: Options) -> Any:
    return json.loads(Path(str(options.json)).read_text("utf-8"))


def pairs(body: Any) -> dict[tuple[str, str], int]:
    return {(each["side"], each["baseline"]): each["num_pairs"] for each in body["overall"]["comparisons"]}


ALL = {("auto", "plain"): 10, ("plain", "other server"): 10, ("auto", "other server"): 10}
ONE_LESS = {("auto", "plain"): 10, ("plain", "other server"): 9, ("auto", "other server"): 9}


@pytest.mark.parametrize("status", [400, 413, 422, 451])
def test_a_refused_prompt_is_in_no_pair_of_that_side_and_named(
    options: Options, other: DaemonDouble, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    other.on_chat = on_prompt("Question 3?", refusal(status, "more than 4096 tokens"))
    page = tmp_path / "page.html"
    assert bench(replace(options, html=page)) == ExitCode.OK
    body = report(options)
    assert body["failures"] == [
        {"question_id": "q3", "side": "other server", "kind": "refused", "message": "more than 4096 tokens"}
    ]
    assert pairs(body) == ONE_LESS
    assert {side["num_answers"] for side in body["overall"]["sides"].values()} == {9}
    sentence = "1 prompt was refused by other server and is in none of its comparisons: q3"
    for text in (capsys.readouterr().out, page.read_text("utf-8"), "\n".join(body["notes"])):
        assert f"{sentence}; more than 4096 tokens" in text


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "--against-model"), (405, "--against takes its address")],
)
def test_what_is_wrong_with_all_prompts_ends_the_bench_at_once(
    options: Options, other: DaemonDouble, capsys: pytest.CaptureFixture[str], status: int, remedy: str
) -> None:
    seen: list[str] = []

    def answer(request: Any) -> Reply | None:
        seen.append(first_turn(request))
        return refusal(status, "go away") if len(seen) > 4 else None

    other.on_chat = answer
    assert bench(options) == ExitCode.FAILURE
    assert len(seen) == 5
    complaint = capsys.readouterr().err
    for fragment in (other.url, "go away", f"HTTP {status}", remedy):
        assert fragment in complaint
    assert "go away" in report(options)["ended_early"]


def test_a_busy_server_is_waited_for(options: Options, other: DaemonDouble) -> None:
    other.on_chat = on_prompt("Question 3?", refusal(429, "slow down", retry_after="2"), refusal(503), None)
    assert bench(options) == ExitCode.OK
    body = report(options)
    assert pairs(body) == ALL
    assert body["failures"] == []
    assert not any(turn["asked_again"] for trial in body["trials"] for turn in trial["turns"])


def test_a_server_that_stays_busy_ends_the_bench_in_a_line(
    options: Options, other: DaemonDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    other.on_chat = on_prompt("Question 3?", refusal(503, "loading", retry_after="50"))
    assert bench(options) == ExitCode.FAILURE
    assert f"{other.url}: still busy after 100 s" in capsys.readouterr().err


@pytest.mark.parametrize("num_pieces", [0, 1])
def test_a_server_that_goes_silent_ends_the_bench_with_what_there_is(
    options: Options, other: DaemonDouble, capsys: pytest.CaptureFixture[str], num_pieces: int
) -> None:
    def fall_silent(request: Any) -> None:
        if first_turn(request) == "Question 3?":
            other.chat, other.chat_stays_open = other.chat[:num_pieces], True

    other.on_chat = fall_silent
    assert bench(replace(options, against_timeout_s=1.0)) == ExitCode.FAILURE
    complaint = capsys.readouterr().err
    assert f"{other.url}: no text for 1 s, the limit of --against-timeout" in complaint
    assert "no text for 1 s" in report(options)["ended_early"]


@pytest.mark.parametrize("broken", [CUT, Cut(), refusal(500, "boom")])
def test_an_answer_that_broke_off_once_counts_but_not_its_first_token(
    options: Options, other: DaemonDouble, broken: Reply | Cut
) -> None:
    """The second try finds the prompt where the first one left it."""
    other.on_chat = on_prompt("Question 3?", broken, None)
    assert bench(options) == ExitCode.OK
    body = report(options)
    assert pairs(body) == ALL
    [compared] = [
        each for each in body["overall"]["comparisons"] if (each["side"], each["baseline"]) == ("plain", "other server")
    ]
    assert compared["num_first_tokens"] == NUM_PROMPTS - 1


def test_an_answer_that_breaks_off_twice_has_failed(options: Options, other: DaemonDouble) -> None:
    other.on_chat = on_prompt("Question 3?", CUT)
    assert bench(options) == ExitCode.OK
    body = report(options)
    assert pairs(body) == ONE_LESS
    [failure] = body["failures"]
    assert (failure["question_id"], failure["kind"]) == ("q3", "failed")
    assert any("1 prompt failed on other server" in note for note in body["notes"])


def test_too_many_failures_and_nothing_can_be_told(
    options: Options, other: DaemonDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    other.on_chat = lambda request: CUT if first_turn(request)[-2] in "357" else None
    assert bench(options) == ExitCode.CANNOT_TELL
    assert "3 of 10 prompts failed on other server, over the limit of 20%" in capsys.readouterr().err
    assert report(options)["exit_code"] == ExitCode.CANNOT_TELL


def test_a_prompt_that_the_daemon_refuses_is_left_out_there(options: Options, daemon: DaemonDouble) -> None:
    daemon.on_chat = on_prompt("Question 3?", refusal(400, "too long"))
    assert bench(options) == ExitCode.OK
    assert set(pairs(report(options)).values()) == {9}


def test_every_prompt_refused_is_no_report(options: Options, daemon: DaemonDouble, other: DaemonDouble) -> None:
    for double in (daemon, other):
        double.on_chat = lambda request: refusal(413, "too long") if "Question" in first_turn(request) else None
    with pytest.raises(HomespecError, match=r"no prompt was answered; q\d on .*: too long"):
        bench(options)


def test_a_server_that_refuses_the_warm_up_is_named(options: Options, other: DaemonDouble) -> None:
    other.on_chat = lambda _: refusal(400, "top_k is unknown")
    with pytest.raises(HomespecError, match=re.escape(f"{other.url} does not answer the warm-up: top_k is unknown")):
        bench(options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device on this system")
def test_a_report_that_cannot_be_written_names_its_file(options: Options) -> None:
    with pytest.raises(HomespecError, match=r"^/dev/full cannot be written: No space left"):
        bench(replace(options, json="/dev/full"))


def test_of_several_models_one_must_be_named(options: Options, other: DaemonDouble) -> None:
    answers(other, ["small", "large"])
    with pytest.raises(ConfigError, match="serves 2 models; name one with --against-model: small, large"):
        bench(options)
    with pytest.raises(ConfigError, match=r"'larg' is not served at .*'large'\?; there are: small, large"):
        bench(replace(options, against_model="larg"))
    assert bench(replace(options, against_model="large")) == ExitCode.OK
    assert {request.json["model"] for request in other.asked("/v1/chat/completions")} == {"large"}
    assert report(options)["machine"]["against_model"] == "large"


@pytest.mark.parametrize(("status", "remedy"), [(401, "OPENAI_API_KEY"), (404, "up to /v1"), (500, "--against-model")])
def test_a_server_without_a_list_of_models(options: Options, other: DaemonDouble, status: int, remedy: str) -> None:
    other.replies["/v1/models"] = refusal(status)
    with pytest.raises(HomespecError, match=f"{re.escape(other.url)}.*{remedy}"):
        bench(options)
    if status != 401:
        assert bench(replace(options, against_model="any")) == ExitCode.OK
