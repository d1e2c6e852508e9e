from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homespec.tui.chat.marked import DRAFTED, MarkedText

PIECES = st.lists(st.lists(st.tuples(st.text("ab\n", max_size=4), st.booleans()), max_size=5), max_size=8)


@given(PIECES)
def test_what_was_drafted_is_marked_and_nothing_else(pieces: list[list[tuple[str, bool]]]) -> None:
    """A piece comes as one text with the ranges that were drafted in it."""
    marked = MarkedText()
    for piece in pieces:
        spans, text = [], ""
        for part, is_drafted in piece:
            if is_drafted:
                spans.append((len(text), len(text) + len(part)))
            text += part
        marked.add(text, spans)
    wanted = [(letter, is_drafted) for piece in pieces for part, is_drafted in piece for letter in part]
    assert [(letter, is_drafted) for text, is_drafted in marked.runs for letter in text] == wanted
    assert all(before[1] is not after[1] for before, after in zip(marked.runs, marked.runs[1:], strict=False))
    assert marked.content().plain == "".join(letter for letter, _ in wanted)


def test_a_mark_is_a_line_and_not_only_a_colour() -> None:
    marked = MarkedText()
    marked.add("one two", [(4, 7)])
    [span] = marked.content().spans
    assert (span.start, span.end) == (4, 7)
    assert "underline" in DRAFTED
    assert marked.drafted_share == 3 / 7


def test_without_word_of_drafts_nothing_is_claimed() -> None:
    marked = MarkedText()
    marked.add("all of it", None)
    assert marked.drafted_share is None
    assert marked.runs == [("all of it", False)]


def test_control_characters_stay_out() -> None:
    marked = MarkedText()
    marked.add("a\x1b[2Jb\n", [(0, 1)])
    assert marked.content().plain == "a[2Jb\n"
