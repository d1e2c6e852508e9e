from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.text_stream import TextStream

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(position % (len(data) + 1) for position in at), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def run(pieces: list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], TextStream]:
    """Deltas of a stream that takes after each piece, as a streaming answer does."""
    stream = TextStream(stop)
    deltas = []
    for piece in pieces:
        stopped = stream.push(piece)
        deltas.append(stream.take())
        if stopped:
            break
    stream.finish()
    deltas.append(stream.take())
    return deltas, stream


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=10))
def test_any_cut_of_any_bytes_gives_the_same_text_and_no_delta_is_taken_back(data: bytes, at: list[int]) -> None:
    deltas, stream = run(cut(data, at))
    assert "".join(deltas) == stream.text == data.decode(errors="replace")


@given(st.text(alphabet="abé漢😀", max_size=40), st.lists(st.integers(0, 200), max_size=12))
def test_characters_are_never_broken(text: str, at: list[int]) -> None:
    deltas, _ = run(cut(text.encode(), at))
    assert all(REPLACEMENT not in delta for delta in deltas)
    assert "".join(deltas) == text


@given(
    st.text(alphabet="ab😀", max_size=30),
    st.lists(st.text(alphabet="ab😀", min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.integers(0, 120), max_size=30),
)
def test_the_text_ends_in_front_of_the_first_stop_that_is_complete(text: str, stop: list[str], at: list[int]) -> None:
    pieces = cut(text.encode(), at)
    deltas, stream = run(pieces, tuple(stop))
    shown = "".join(deltas)
    assert shown == stream.text
    assert text.startswith(shown)
    ends = [text.find(each) for each in stop if each in text]
    assert (stream.stopped_by is not None) is bool(ends)
    if not ends:
        assert shown == text
    elif all(len(piece) <= 1 for piece in pieces):
        # Byte by byte the stop that is complete first decides, whatever starts first.
        first_complete = min(text.find(each) + len(each) for each in stop if each in text)
        assert shown == text[: min(text.find(e) for e in stop if e in text and text.find(e) + len(e) == first_complete)]
    for each in stop:
        assert each not in shown


@pytest.mark.parametrize(
    ("pieces", "stop", "shown"),
    [
        ([b"one ", b"tw", b"o three"], ("two",), "one "),
        ([b"ab", b"c"], ("abc",), ""),
        ([b"xab", b"ab", b"abc"], ("ababc",), "xab"),
        ([b"aaa", b"ab"], ("aab",), "aa"),
        ([b"stop"], ("stop", "st"), ""),
        ([b"a\n", b"\nb"], ("\n\n",), "a"),
        (["😀".encode()[:2], "😀".encode()[2:] + b"!"], ("😀",), ""),
    ],
)
def test_stops_across_pieces(pieces: list[bytes], stop: tuple[str, ...], shown: str) -> None:
    deltas, stream = run(pieces, stop)
    assert "".join(deltas) == shown
    assert stream.stopped_by in stop


def test_a_tail_that_may_become_a_stop_is_held_back_and_let_go() -> None:
    stream = TextStream(("###",))
    stream.push(b"a#")
    assert stream.take() == "a"
    stream.push(b"#")
    assert stream.take() == ""
    stream.push(b"b")
    assert stream.take() == "##b"
    stream.push(b"c#")
    assert stream.take() == "c"
    stream.finish()
    assert stream.take() == "#"


def test_garbage_does_not_stall_the_stream() -> None:
    stream = TextStream()
    for _ in range(20):
        stream.push(b"\xff\xfe")
        assert stream.take() == REPLACEMENT * 2


def test_an_incomplete_character_at_the_end_becomes_one_mark() -> None:
    stream = TextStream()
    stream.push("é".encode()[:1])
    assert stream.take() == ""
    stream.finish()
    assert stream.take() == REPLACEMENT


def test_a_text_put_in_front_is_shown_and_not_searched() -> None:
    stream = TextStream(("stop",))
    stream.begin("never stop")
    assert not stream.push(b" going")
    assert stream.take() == "never stop going"
    assert stream.push(b" stop now")
    assert stream.take() == " "
