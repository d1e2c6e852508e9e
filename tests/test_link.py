"""Every message crosses unchanged, in one piece or byte by byte, and a bad one is an error with its size."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import msgspec
import pytest

from homespec import frames, link
from homespec.errors import EngineError, ErrorInfo
from homespec.frames import (
    Admit,
    Cancel,
    ChatPrompt,
    Constraint,
    Delta,
    Detokenize,
    DraftProgress,
    Embed,
    Embedded,
    EngineSettings,
    Finished,
    Frame,
    Generate,
    Happened,
    Heartbeat,
    LoadFailed,
    Loading,
    Measured,
    Noted,
    Readmit,
    Ready,
    Refused,
    ReloadDrafter,
    Sampling,
    SetDrafter,
    Snapshot,
    Speculation,
    Start,
    Stop,
    Text,
    TextPrompt,
    Tokenize,
    TokenLogprob,
    TokenPrompt,
    Tokens,
    Withdraw,
)
from homespec.link import HEADER_BYTES, Link, body_length, decode_from_engine, encode
from homespec.stats import DraftStats
from homespec.status import (
    DeviceMemory,
    DrafterStatus,
    DraftState,
    EngineCounters,
    EngineSnapshot,
    ModelMemory,
    ModelStatus,
    RequestPhase,
    RequestStatus,
    SpeculationReport,
    SpeculationStatus,
    Timings,
)

MODEL = ModelStatus(
    id="id",
    path="/models/é 😀.gguf",
    description="llama 135M Q4_1",
    architecture="llama",
    num_params=134_515_008,
    size_bytes=2**40,
    n_vocab=49152,
    n_layer=30,
    n_ctx=2048,
    n_ctx_train=8192,
    slots=4,
    kv_type="bf16",
    flash_attention=True,
    threads=2,
    devices=("CUDA0", "CPU"),
    chat_template=None,
)
SNAPSHOT = EngineSnapshot(
    speculation=SpeculationStatus(
        mode="auto",
        drafter="draft",
        state=DraftState.READY,
        reason="loaded in 1.2s",
        max_draft_tokens=4,
        drafters=(DrafterStatus("draft", DraftState.READY, "loaded", "/d.gguf"),),
        totals={"draft": DraftStats(3, 12, 7, [3, 2, 1, 1])},
    ),
    counters=EngineCounters(1, 2, 3, 4, 5, 6, {"off": 7}),
    requests=(RequestStatus("r", RequestPhase.DECODE, None, 1, 1, 0, 5, 0.5, None, "draft", 4, 0.5, 3.0),),
    target_memory=ModelMemory(1, 2, 3, {"CPU": ModelMemory(1), "CUDA0": ModelMemory(0, 2, 3)}),
    drafter_memory=ModelMemory(),
    kv_used_tokens=9,
    kv_total_tokens=2048,
    devices=(DeviceMemory("CUDA0", "a card", "0000:0a:00.0", False, 8, None),),
)
REPORT = SpeculationReport(DraftState.OFF, "switched off", {"draft": 3}, 9, 12, 7, 1.8, [1.0, 0.5], "strict")
LOGPROBS = [TokenLogprob(5, -0.5, [(5, -0.5), (7, -1.5)], "é".encode(), ["é".encode(), b" b"], 3)]

TO_ENGINE: list[Frame] = [
    Start(EngineSettings("/m.gguf", "m", draft_path="/d.gguf", n_ctx=128, quarantined={"draft": "crashed"})),
    Generate(
        request_id="r",
        prompt=ChatPrompt([{"role": "user", "content": "hé😀"}]),
        sampling=Sampling(temperature=0.0, seed=2**63, logit_bias={5: -100.0, 49151: 1.5}),
        speculation=Speculation("draft", 0, "rejection"),
        max_tokens=1,
        stop=("a", "\n\n"),
        stream=True,
        partition="key",
        ignore_eos=True,
        constraint=Constraint("regex", "a+", "response_format"),
        num_logprobs=0,
        echo=True,
    ),
    Generate("r", TextPrompt("text"), Sampling()),
    Generate("r", TokenPrompt([0, 49151]), Sampling(), max_tokens=None),
    Generate("r", TextPrompt("def f(", "): pass"), Sampling()),
    Embed("r", ["text", [1, 2]], dimensions=8, truncate=True),
    Cancel("r"),
    SetDrafter("off"),
    Withdraw("withdrawn: 10 MiB free"),
    Readmit(),
    Admit(2048, "q8_0", 0),
    ReloadDrafter(),
    Tokenize("r", "text", special=True),
    Detokenize("r", [1, -5]),
    Stop(),
]
FROM_ENGINE: list[Frame] = [
    Loading(0.5, "loading m.gguf"),
    Ready(MODEL),
    Measured("strict", "agrees bit for bit"),
    Measured("strict", "agrees bit for bit", 1),
    LoadFailed("ModelCorrupt", "cut short"),
    Noted("r", ("left out",)),
    Delta("r", "té", 3, LOGPROBS, DraftProgress(2, 1, [(0, 1)])),
    Finished("r", "", "stop", 1, 2, 3, Timings(1, 2.0, None, 3, 4.0, 5.0, 6, 7, 8), REPORT, LOGPROBS),
    Embedded("r", [b"\x00\x00\x80?"], 3),
    Refused("r", ErrorInfo("busy", 503, "server_error", None, "queue_full", 2)),
    Tokens("r", [1, 2]),
    Text("r", "text"),
    Snapshot(SNAPSHOT),
    Heartbeat(2**40, True),
    Happened("drafter", "draft ready: loaded"),
]


def union_members(union: Any) -> set[type]:
    return set(union.__args__)


def test_every_kind_of_message_is_tried_here() -> None:
    assert {type(frame) for frame in TO_ENGINE} == union_members(frames.ToEngine)
    assert {type(frame) for frame in FROM_ENGINE} == union_members(frames.FromEngine)
    assert union_members(frames.Answer) <= union_members(frames.FromEngine)


@pytest.mark.parametrize("frame", FROM_ENGINE, ids=lambda frame: type(frame).__name__)
def test_what_the_engine_says_arrives_unchanged(frame: Frame) -> None:
    data = encode(frame)
    assert body_length(data[:HEADER_BYTES]) == len(data) - HEADER_BYTES
    assert decode_from_engine(data[HEADER_BYTES:]) == frame


def test_what_the_daemon_says_arrives_unchanged_though_it_comes_byte_by_byte() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = Link(theirs)
        data = b"".join(encode(frame) for frame in TO_ENGINE)

        def trickle() -> None:
            for byte in data:
                ours.sendall(bytes([byte]))
            ours.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=trickle)
        writer.start()
        received = [link.receive() for _ in TO_ENGINE]
        assert received == TO_ENGINE
        assert link.receive() is None
        writer.join()
        link._reader.close()


@pytest.mark.parametrize("cut", [1, HEADER_BYTES, HEADER_BYTES + 3])
def test_a_connection_that_ends_inside_a_message_is_an_end(cut: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = Link(theirs)
        ours.sendall(encode(Cancel("request"))[:cut])
        ours.close()
        assert link.receive() is None
        link._reader.close()


def test_messages_of_several_threads_do_not_mix() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = Link(theirs)
        texts = [str(index) * 5000 for index in range(8)]
        threads = [threading.Thread(target=lambda text=text: link.send(Text("r", text))) for text in texts]
        for thread in threads:
            thread.start()
        with ours.makefile("rb") as reader:
            received = []
            for _ in texts:
                body = reader.read(body_length(reader.read(HEADER_BYTES)))
                received.append(decode_from_engine(body))
        for thread in threads:
            thread.join()
        assert sorted(frame.text for frame in received if isinstance(frame, Text)) == sorted(texts)
        link._reader.close()


def test_sending_to_a_daemon_that_is_gone_raises() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        link = Link(theirs)
        ours.close()
        with pytest.raises(OSError, match=r"pipe|reset"):
            link.send(Text("r", "text"))
        link._reader.close()


def test_a_message_over_the_limit_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "MAX_FRAME_BYTES", 100)
    with pytest.raises(EngineError, match=r"frame of \d+ bytes is over the limit of 100"):
        encode(Text("r", "x" * 200))
    with pytest.raises(EngineError, match="frame of 101 bytes is over the limit of 100"):
        body_length(struct.pack(">I", 101))


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"type": "Nobody"}), b"\x81\xa4type\xa4Text"])
def test_a_body_that_is_no_message_is_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_from_engine(body)


def test_defaults_take_no_room() -> None:
    small, large = Generate("r", TextPrompt("a"), Sampling()), Generate("r", TextPrompt("a"), Sampling(seed=5))
    assert len(encode(small)) < len(encode(large)) < 100
