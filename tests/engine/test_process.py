"""The engine as a process: what it says on its socket, and how it ends."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from homespec.errors import ExitCode
from homespec.frames import (
    Cancel,
    Delta,
    Detokenize,
    EngineSettings,
    Finished,
    Frame,
    FromEngine,
    Happened,
    Heartbeat,
    LoadFailed,
    Loading,
    Measured,
    Readmit,
    Ready,
    Refused,
    SetDrafter,
    Snapshot,
    Start,
    Stop,
    Text,
    Tokenize,
    Tokens,
    Withdraw,
)
from homespec.link import HEADER_BYTES, body_length, decode_from_engine, encode
from homespec.status import DraftState
from tests.kits.engines import ask
from tests.kits.gguf_kit import follow, truncated
from tests.kits.models import Models

pytestmark = [pytest.mark.real, pytest.mark.process]

TIMEOUT_S = 100
AnyFrame = TypeVar("AnyFrame", bound=Frame)


class Engine:
    """The parent's view of one engine process."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self.sock = sock
        self._reader = sock.makefile("rb")
        self.seen: list[FromEngine] = []

    def send(self, frame: Frame) -> None:
        self.sock.sendall(encode(frame))

    def receive(self) -> FromEngine | None:
        """The next frame; None when the process is gone."""
        header = self._reader.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return None
        frame = decode_from_engine(self._reader.read(body_length(header)))
        self.seen.append(frame)
        return frame

    def wait_for(self, frame_type: type[AnyFrame], /, **fields: Any) -> AnyFrame:
        """The next frame of a type with the given fields."""
        while (frame := self.receive()) is not None:
            if isinstance(frame, frame_type) and all(getattr(frame, name) == value for name, value in fields.items()):
                return frame
        raise AssertionError(f"the engine ended without a {frame_type.__name__}")

    def close(self) -> None:
        self._reader.close()
        self.sock.close()

    def exit_code(self) -> int:
        return self.process.wait(TIMEOUT_S)


@contextmanager
def started(model: Path, **settings: Any) -> Iterator[Engine]:
    """A child that has got its Start frame."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "homespec.engine", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
    ours.settimeout(TIMEOUT_S)
    engine = Engine(process, ours)
    try:
        engine.send(Start(EngineSettings(str(model), "test", **{"n_ctx": 512, "threads": 1, **settings})))
        yield engine
    finally:
        engine.close()
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def markov(models: Models) -> Iterator[Engine]:
    with started(models.markov, draft_path=str(models.markov_drafter)) as engine:
        engine.wait_for(Ready)
        yield engine


def test_it_reports_progress_then_its_state_then_that_it_is_ready(models: Models) -> None:
    with started(models.letters) as engine:
        ready = engine.wait_for(Ready)
        engine.wait_for(Measured)
        kinds = [type(frame) for frame in engine.seen if not isinstance(frame, (Heartbeat, Happened))]
        assert kinds[0] is Loading
        assert kinds.index(Snapshot) < kinds.index(Ready) < kinds.index(Measured)
        assert ready.model.architecture == "llama"


def test_a_request_is_answered_and_a_stream_in_parts(markov: Engine, models: Models) -> None:
    whole = ask([5, 6], max_tokens=12, mode="draft")
    markov.send(whole)
    finished = markov.wait_for(Finished, request_id=whole.request_id)
    assert finished.num_output_tokens == 12
    streamed = ask([5, 6], max_tokens=12, stream=True, mode="draft")
    markov.send(streamed)
    end = markov.wait_for(Finished, request_id=streamed.request_id)
    deltas = [f.text for f in markov.seen if isinstance(f, Delta) and f.request_id == streamed.request_id]
    assert "".join(deltas) == finished.text == bytes(follow(models.chain, 6, 12)).decode(errors="replace")
    assert end.text == ""


def test_a_bad_request_is_refused_and_the_next_one_answered(markov: Engine) -> None:
    bad, good = ask([1] * 600), ask([1], max_tokens=2)
    markov.send(bad)
    markov.send(good)
    assert markov.wait_for(Refused, request_id=bad.request_id).error.code == "context_length_exceeded"
    markov.wait_for(Finished, request_id=good.request_id)


def test_text_becomes_tokens_and_tokens_text(markov: Engine) -> None:
    markov.send(Tokenize("t1", "hé<|eos|>"))
    markov.send(Tokenize("t2", "hé<|eos|>", special=True))
    markov.send(Detokenize("t3", [104, 195, 169, 257]))
    markov.send(Detokenize("t4", [104, 10**6, -1]))
    assert markov.wait_for(Tokens, request_id="t1").token_ids == list("hé<|eos|>".encode())
    assert markov.wait_for(Tokens, request_id="t2").token_ids == [*"hé".encode(), 257]
    assert markov.wait_for(Text, request_id="t3").text == "hé<|eos|>"
    refused = markov.wait_for(Refused, request_id="t4").error
    assert (refused.status, refused.param) == (400, "tokens[1]")


def test_a_cancelled_request_says_nothing_more(markov: Engine) -> None:
    victim, after = ask([7], max_tokens=None, stream=True), ask([8], max_tokens=3)
    markov.send(victim)
    markov.wait_for(Delta, request_id=victim.request_id)
    markov.send(Cancel(victim.request_id))
    markov.send(after)
    markov.wait_for(Finished, request_id=after.request_id)
    again = ask([8], max_tokens=3)
    start = len(markov.seen)
    markov.send(again)
    markov.wait_for(Finished, request_id=again.request_id)
    assert not any(getattr(f, "request_id", None) == victim.request_id for f in markov.seen[start:])
    assert not any(isinstance(f, Finished) and f.request_id == victim.request_id for f in markov.seen)


def test_the_heartbeat_tells_the_progress_of_the_decode_loop(markov: Engine) -> None:
    before = markov.wait_for(Heartbeat)
    request = ask([9], max_tokens=20)
    markov.send(request)
    markov.wait_for(Finished, request_id=request.request_id)
    after = markov.wait_for(Heartbeat, busy=False)
    assert after.progress > before.progress


def test_the_drafter_can_be_switched(markov: Engine) -> None:
    markov.send(SetDrafter("off"))
    while markov.wait_for(Snapshot).snapshot.speculation.mode != "off":
        pass
    request = ask([9], max_tokens=20, mode="auto")
    markov.send(request)
    report = markov.wait_for(Finished, request_id=request.request_id).speculation
    assert (report.state, report.drafted) == ("off", 0)
    assert "switched off" in report.reason
    markov.send(SetDrafter("auto"))
    while markov.wait_for(Happened, kind="drafter").text.split(":")[0] != "draft ready":
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has an OOM killer with scores")
def test_it_offers_itself_to_the_oom_killer(markov: Engine) -> None:
    assert int(Path(f"/proc/{markov.process.pid}/oom_score_adj").read_text()) >= 300


def test_a_target_that_cannot_be_loaded_is_told_by_kind_and_ends_with_its_code(models: Models, tmp_path: Path) -> None:
    with started(truncated(models.demo, tmp_path / "cut.gguf", 50_000_000)) as engine:
        failed = engine.wait_for(LoadFailed)
        assert failed.kind == "ModelCorrupt"
        assert "cut short" in failed.message
        assert engine.exit_code() == ExitCode.MODEL


def test_a_drafter_that_is_a_text_file_is_off_with_one_event_and_the_reason_everywhere(
    models: Models, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.gguf"
    notes.write_text("These are not the weights you are looking for.")
    with started(models.markov, draft_path=str(notes)) as engine:
        engine.wait_for(Ready)
        while "draft off" not in engine.wait_for(Happened).text:
            pass
        request = ask([1, 2], mode="draft", max_tokens=8)
        engine.send(request)
        report = engine.wait_for(Finished, request_id=request.request_id).speculation
        assert report.state == "off"
        assert "invalid magic" in report.reason
        status = next(d for d in engine.wait_for(Snapshot).snapshot.speculation.drafters if d.name == "draft")
        assert status.state == "off"
        assert "invalid magic" in status.reason
        assert sum("invalid magic" in f.text for f in engine.seen if isinstance(f, Happened)) == 1


def test_it_ends_when_told_to(models: Models) -> None:
    with started(models.letters) as engine:
        engine.wait_for(Ready)
        engine.send(ask("a", max_tokens=None, ignore_eos=True))
        engine.send(Stop())
        assert engine.exit_code() == ExitCode.OK


@pytest.mark.parametrize("when", ["loading", "ready", "answering"])
def test_it_ends_when_the_other_end_of_its_socket_is_gone(models: Models, when: str) -> None:
    with started(models.demo if when == "loading" else models.letters) as engine:
        if when != "loading":
            engine.wait_for(Ready)
        if when == "answering":
            request = ask("a", max_tokens=None, stream=True)
            engine.send(request)
            engine.wait_for(Delta, request_id=request.request_id)
        engine.close()
        assert engine.exit_code() == ExitCode.OK


def draft_states(engine: Engine) -> list[DraftState]:
    """Of the draft model, as told so far."""
    snapshots = [frame.snapshot for frame in engine.seen if isinstance(frame, Snapshot)]
    drafters = [drafter for snapshot in snapshots for drafter in snapshot.speculation.drafters]
    return [drafter.state for drafter in drafters if drafter.name == "draft"]


def test_a_drafter_is_withdrawn_and_readmitted_whatever_it_is_doing(models: Models) -> None:
    """The first frame comes while it loads; the last state is the one that was asked for last."""
    with started(models.markov, draft_path=str(models.markov_drafter)) as engine:
        engine.wait_for(Ready)
        for turn in range(4):
            engine.send(Withdraw(f"withdrawn {turn}"))
            engine.wait_for(Happened, text=f"draft off: withdrawn {turn}")
            engine.wait_for(Snapshot)
            assert draft_states(engine)[-1] is DraftState.OFF
            engine.send(Readmit())
            engine.send(Withdraw("withdrawn again"))
            engine.send(Readmit())
            while draft_states(engine)[-1] is not DraftState.READY:
                engine.wait_for(Snapshot)
        assert not any(isinstance(frame, Happened) and "cannot be loaded" in frame.text for frame in engine.seen)


def test_an_engine_started_under_pressure_waits_for_readmission(models: Models) -> None:
    with started(models.markov, draft_path=str(models.markov_drafter), withdrawn="withdrawn: low") as engine:
        engine.wait_for(Ready)
        assert draft_states(engine) == [DraftState.OFF]
        engine.send(Readmit())
        while draft_states(engine)[-1] is not DraftState.READY:
            engine.wait_for(Snapshot)
