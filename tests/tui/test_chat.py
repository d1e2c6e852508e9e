"""The chat against a real server: piped, typed, and over a pseudo-terminal."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from homespec.errors import ExitCode
from homespec.tui import run_chat
from tests.client.daemon_double import DaemonDouble, Reply, free_port, sse, wait_until

from .screen import PATIENCE_S

CHAT = "/v1/chat/completions"
LAUNCH = "import sys; from homespec.tui import run_chat; sys.exit(run_chat(sys.argv[1]))"
TIMINGS = {
    "prompt_n": 12,
    "prompt_ms": 40.0,
    "prompt_per_second": 300.0,
    "predicted_n": 57,
    "predicted_ms": 686.0,
    "predicted_per_second": 83.1,
    "cache_n": 0,
    "draft_n": 48,
    "draft_n_accepted": 40,
}
SPECULATIVE = {
    "state": "ready",
    "reason": "matches of 12 tokens",
    "drafters": {"suffix": 16},
    "rounds": 17,
    "drafted": 48,
    "accepted": 40,
    "acceptance_length": 3.353,
    "per_position": [0.9, 0.8],
    "exactness": "strict",
}
NUMBERS = "AL 3.35 · accepted 40/48 (83 %) · drafter suffix ready: matches of 12 tokens"


def chunk(text: str | None = None, finish_reason: str | None = None, **fields: object) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return sse(json.dumps({"id": "chatcmpl-1", "choices": [choice], **fields}, ensure_ascii=False))


def answer(*texts: str, finish_reason: str = "stop") -> list[bytes]:
    """A whole streamed answer."""
    last = chunk(finish_reason=finish_reason, timings=TIMINGS, speculative=SPECULATIVE)
    return [chunk(""), *(chunk(text) for text in texts), last, sse("[DONE]")]


class Typed(io.StringIO):
    """A stdin that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put bytes into stdin, as from a pipe."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Type lines, then Ctrl-D."""
    return lambda text: monkeypatch.setattr(sys, "stdin", Typed(text))


Pipe = Callable[[bytes], None]
Keyboard = Callable[[str], None]
Captured = pytest.CaptureFixture[str]


def test_a_pipe_gets_the_answer_and_nothing_else(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = answer("Hallo", " Welt")
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out == "Hallo Welt\n"
    assert err.startswith("57 tokens · 83.1 tok/s · TTFT ")
    assert err.endswith(f" · {NUMBERS}\n")
    assert daemon.asked(CHAT)[0].json == {"messages": [{"role": "user", "content": "hi"}], "stream": True}


def test_bytes_may_come_one_by_one(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    stream = b"".join(answer("Ein 🦙", " grüßt", " das 日本\n"))
    daemon.chat = [bytes([byte]) for byte in stream]
    pipe("grüß 🦙".encode())
    assert run_chat(daemon.url) == ExitCode.OK
    assert capsys.readouterr().out == "Ein 🦙 grüßt das 日本\n"
    assert daemon.asked(CHAT)[0].json["messages"][0]["content"] == "grüß 🦙"


def test_every_line_is_a_message_of_one_conversation(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = answer("aye")
    pipe(b"one\n\n   \n/quit\n")
    assert run_chat(daemon.url) == ExitCode.OK
    assert capsys.readouterr().out == "aye\naye\n"
    assert [turn["content"] for turn in daemon.asked(CHAT)[1].json["messages"]] == ["one", "aye", "/quit"]


def thinking(text: str) -> bytes:
    return sse(json.dumps({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"reasoning_content": text}}]}))


def test_thinking_is_shown_beside_the_answer_and_not_sent_back(
    daemon: DaemonDouble, pipe: Pipe, capsys: Captured
) -> None:
    daemon.chat = [thinking("Hm,"), thinking(" well"), *answer("aye")]
    pipe(b"one\ntwo\n")
    assert run_chat(daemon.url) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out == "aye\naye\n"
    assert err.startswith("Hm, well\n57 tokens")
    assert [turn["content"] for turn in daemon.asked(CHAT)[1].json["messages"]] == ["one", "aye", "two"]


def test_an_answer_that_is_all_thinking_is_no_turn(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = [thinking("Hm"), *answer(finish_reason="length")]
    pipe(b"one\ntwo\n")
    assert run_chat(daemon.url) == ExitCode.OK
    assert capsys.readouterr().out == ""
    assert [turn["content"] for turn in daemon.asked(CHAT)[1].json["messages"]] == ["two"]


def test_settings_go_along(daemon: DaemonDouble, pipe: Pipe) -> None:
    daemon.chat = answer("ok")
    pipe(b"hi")
    options = {"system": "be brief", "temperature": 0.0, "max_tokens": 9, "speculative": "off", "model": "default"}
    assert run_chat(daemon.url, "key", **options) == ExitCode.OK  # type: ignore[arg-type]
    (asked,) = daemon.asked(CHAT)
    assert asked.headers["authorization"] == "Bearer key"
    assert asked.json == {
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "stream": True,
        "model": "default",
        "temperature": 0.0,
        "max_tokens": 9,
        "speculative": {"mode": "off"},
    }


def test_input_that_is_not_utf8_does_not_end_it(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = answer("ok")
    pipe(b"a\xffb\n")
    assert run_chat(daemon.url) == ExitCode.OK
    assert daemon.asked(CHAT)[0].json["messages"][0]["content"] == "a\N{REPLACEMENT CHARACTER}b"


def test_an_error_in_the_middle_is_one_line(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = [chunk("Half an"), sse('{"error":{"message":"the engine died:\\nkilled"}}'), sse("[DONE]")]
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.FAILURE
    assert capsys.readouterr() == ("Half an\n", "homespec: the engine died: killed\n")


def test_an_answer_that_breaks_off_is_one_line(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat, daemon.chat_breaks = [chunk("Half an")], True
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.FAILURE
    assert capsys.readouterr() == ("Half an\n", "homespec: the answer broke off: the connection closed early\n")


def test_a_chunk_that_is_none_is_one_line(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = [sse("<html>")]
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.FAILURE
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "not a chat chunk" in err


def test_a_refusal_is_the_daemons_own_line(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.replies[CHAT] = Reply(400, b'{"error":{"message":"the prompt has 9000 tokens, n_ctx is 8192"}}')
    pipe(b"one\ntwo\n")
    assert run_chat(daemon.url) == ExitCode.FAILURE
    assert capsys.readouterr() == ("", "homespec: the prompt has 9000 tokens, n_ctx is 8192\n" * 2)
    assert [asked.json["messages"] for asked in daemon.asked(CHAT)][1] == [{"role": "user", "content": "two"}]


@pytest.mark.parametrize("interactive", [False, True])
def test_no_daemon(pipe: Pipe, keyboard: Keyboard, capsys: Captured, interactive: bool) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    keyboard("one\ntwo\n") if interactive else pipe(b"one\ntwo\n")
    assert run_chat(url) == ExitCode.UNREACHABLE
    told = f"homespec: no homespec at {url}: connection refused. Start one with 'homespec serve' or pass --url.\n"
    assert capsys.readouterr() == ("", told)


def test_numbers_of_a_newer_daemon_do_not_cost_the_answer(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = [chunk("ok", timings={"new": 1}, speculative={"state": "dreaming"}), sse("[DONE]")]
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.OK
    assert capsys.readouterr().out == "ok\n"


def test_an_answer_without_drafts_says_why(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    idle = {"state": "off", "reason": "no match", "drafters": {}, "rounds": 57, "drafted": 0, "accepted": 0}
    report = {**idle, "acceptance_length": 1.0, "per_position": [], "exactness": "strict"}
    daemon.chat = [chunk("ok", timings=TIMINGS, speculative=report), sse("[DONE]")]
    pipe(b"hi\n")
    assert run_chat(daemon.url) == ExitCode.OK
    assert capsys.readouterr().err.endswith(" · AL 1.00 · nothing drafted · drafter off: no match\n")


def test_the_token_limit_is_told(daemon: DaemonDouble, pipe: Pipe, capsys: Captured) -> None:
    daemon.chat = answer("cut", finish_reason="length")
    pipe(b"hi\n")
    run_chat(daemon.url)
    assert capsys.readouterr().err.endswith(" · cut at the token limit\n")


def test_commands(daemon: DaemonDouble, keyboard: Keyboard, capsys: Captured) -> None:
    daemon.chat = answer("aye")
    first_half = ["/help", "/stats", "/system be brief", "/draft off", "hi", "/stats"]
    keyboard("\n".join([*first_half, "/reset", "/system", "/draft", "again", "/nonsense", "/quit", "no"]))
    assert run_chat(daemon.url) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out == "aye\naye\n"
    first, second = (asked.json for asked in daemon.asked(CHAT))
    assert first["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert second["messages"] == [{"role": "user", "content": "again"}]
    assert first["speculative"] == second["speculative"] == {"mode": "off"}
    assert "/draft auto|off|NAME" in err
    assert "0 answers · 0 tokens · n/a\n" in err
    assert "1 answer · 57 tokens · 83.1 tok/s · AL 3.35 · accepted 40/48 (83 %)\n" in err
    assert "drafting for this chat: off\n" in err
    assert "unknown command /nonsense; /help lists them\n" in err


def test_a_prompt_never_lands_in_a_redirected_answer(
    daemon: DaemonDouble, keyboard: Keyboard, capsys: Captured
) -> None:
    daemon.chat = answer("aye")
    keyboard("hi\n")
    assert run_chat(daemon.url) == ExitCode.OK
    out, err = capsys.readouterr()
    assert out == "aye\n"
    assert err.count("> ") == 2


def test_a_closed_stdout_is_no_error(daemon: DaemonDouble) -> None:
    daemon.chat = answer(*["word "] * 2000)
    command = f"echo hi | {sys.executable} -c '{LAUNCH}' {daemon.url} | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "w")
    assert "Traceback" not in done.stderr


class Terminal:
    """A chat in a process of its own on a pseudo-terminal."""

    def __init__(self, url: str) -> None:
        self._master, slave = os.openpty()
        environment = {**os.environ, "TERM": "dumb"}
        # A test run in the background of a shell hands down an ignored Ctrl-C.
        heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        command = [sys.executable, "-c", heed + LAUNCH, url]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str) -> None:
        """Block until the text is shown; what came before it is forgotten."""
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], PATIENCE_S)
            assert ready, f"{text!r} never came; seen: {self.seen!r}"
            self.seen += os.read(self._master, 4096).decode()
        self.seen = self.seen.partition(text)[2]

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def interrupt_until_it_ends(self) -> int:
        """One Ctrl-C can fall between the moment the prompt is shown and the moment it is waited at.

        One that comes while the interpreter ends would kill it, so the next one must not come too soon.
        """
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.interrupt()
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(5)
        raise AssertionError("Ctrl-C does not end the chat")

    def close(self) -> None:
        os.close(self._master)
        self.process.kill()
        self.process.wait()


@contextmanager
def terminal(url: str) -> Iterator[Terminal]:
    opened = Terminal(url)
    try:
        yield opened
    finally:
        opened.close()


def test_ctrl_c_stops_the_answer_and_not_the_chat(daemon: DaemonDouble) -> None:
    daemon.chat, daemon.chat_stays_open = [chunk("Once \x1b[2Jupon a")], True
    with terminal(daemon.url) as chat:
        chat.read_until("> ")
        chat.type("tell me a story\n")
        chat.read_until("Once [2Jupon a")
        chat.interrupt()
        chat.read_until("stopped")
        wait_until(lambda: daemon.chats_left == 1)
        chat.read_until("> ")
        daemon.chat, daemon.chat_stays_open = answer("a time"), False
        chat.type("go on\n")
        chat.read_until("a time")
        turns = [turn["content"] for turn in daemon.asked(CHAT)[1].json["messages"]]
        assert turns == ["tell me a story", "Once \x1b[2Jupon a", "go on"]
        chat.read_until("> ")
        chat.type("\x04")
        assert chat.process.wait(PATIENCE_S) == ExitCode.OK


def test_ctrl_c_at_the_prompt_leaves(daemon: DaemonDouble) -> None:
    with terminal(daemon.url) as chat:
        chat.read_until("> ")
        assert chat.interrupt_until_it_ends() == ExitCode.OK
