from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from homespec.client.sse import SseEvent, SseParser

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
PIECES = st.sampled_from(
    [b"data: ", b"data:", b"data", b"event: x", b": ping", b"id: 7", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b" ", b":"]
) | st.binary(max_size=6)


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(st.lists(PIECES).map(b"".join), st.lists(st.integers(0, 10_000)))
def test_every_cut_of_any_bytes_gives_the_same_events(stream: bytes, places: list[int]) -> None:
    assert parse(cut(stream, places)) == parse([stream])
    assert parse([bytes([byte]) for byte in stream]) == parse([stream])


@given(st.lists(st.lists(LINES, min_size=1, max_size=3)), st.sampled_from(["\n", "\r", "\r\n"]), st.integers(1, 7))
def test_what_is_written_is_read(messages: list[list[str]], end: str, size: int) -> None:
    text = "".join("".join(f"data: {line}{end}" for line in lines) + f": ping{end}{end}" for lines in messages)
    stream = text.encode()
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert parse(chunks) == [SseEvent("\n".join(lines)) for lines in messages]


def test_an_emoji_may_be_cut_anywhere() -> None:
    stream = "data: grüß 🦙 dich\n\n".encode()
    assert parse([bytes([byte]) for byte in stream]) == [SseEvent("grüß 🦙 dich")]


def test_names_comments_and_fields_without_data() -> None:
    stream = b"\xef\xbb\xbf: hello\nevent: error\nid: 3\nretry: 10\ndata: a\ndata:b\ndata\n\nevent: lost\n\ndata: c\n\n"
    assert parse([stream]) == [SseEvent("a\nb\n", "error"), SseEvent("c")]


def test_an_unfinished_event_stays_pending() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"") == []
    assert parser.feed(b"\n") == [SseEvent("a")]


def test_crlf_cut_in_the_middle_is_one_line_end() -> None:
    assert parse([b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]) == [SseEvent("a\nb")]


def test_bytes_that_are_not_utf8_become_marks() -> None:
    assert parse([b"data: \xff\n\n"]) == [SseEvent("\N{REPLACEMENT CHARACTER}")]
