"""Beside the chat: how fast the answer comes, and what drafting does for it."""

from __future__ import annotations

from collections.abc import Iterator

from homespec.status import Status
from homespec.tui.chat.live import LiveAnswer
from homespec.tui.chat.marked import DRAFTED
from homespec.tui.chat.report import ChatTotals
from homespec.tui.line import MUTED, Line, facts, line, wrapped
from homespec.tui.text import UNKNOWN, number, percent
from homespec.tui.widgets.drafters import STATES
from homespec.tui.widgets.panel import Panel
from homespec.units import clean, format_duration, format_rate

LABEL_WIDTH = 10


class ChatStats(Panel):
    """This answer, the daemon at this moment, the chat so far."""

    def __init__(self) -> None:
        super().__init__("chat-stats")
        self._live: LiveAnswer | None = None
        self._totals = ChatTotals()

    def show(self, live: LiveAnswer | None, totals: ChatTotals) -> None:
        """The numbers to draw from now on."""
        self._live, self._totals = live, totals
        self.watch_status(self.status)

    def title(self, status: Status) -> str:
        return "this answer"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        return [*_answer(self._live, width), line(""), *_daemon(status, width), line(""), *_chat(self._totals, width)]


def _answer(live: LiveAnswer | None, width: int) -> Iterator[Line]:
    if live is None:
        yield line(("nothing asked yet", MUTED))
        return
    report = live.answer.speculation
    tokens = UNKNOWN if live.num_tokens is None else str(live.num_tokens)
    yield _row("tokens", tokens if live.is_done else f"{tokens} …")
    yield _row("speed", format_rate(live.tokens_per_second) if live.tokens_per_second else UNKNOWN)
    first_s = live.answer.time_to_first_token_s
    yield _row("TTFT", UNKNOWN if first_s is None else format_duration(first_s))
    yield _row("AL", number(live.acceptance_length, 2))
    drafted = "" if report is None else f" of {report.drafted}"
    yield _row("accepted", UNKNOWN if live.num_accepted is None else f"{live.num_accepted}{drafted}")
    share = f"{percent(live.text.drafted_share)} of the text"
    yield line(("drafted", DRAFTED), " " * (LABEL_WIDTH - len("drafted") + 1), (share, "bold"))
    if report is not None:
        names = ", ".join(clean(name) for name in report.drafters) or "nothing"
        yield from wrapped(f"{names} drafted: {report.reason}", width, MUTED)


def _daemon(status: Status, width: int) -> Iterator[Line]:
    yield line(("the daemon now", "bold"))
    yield _row(
        "speed",
        "idle" if status.throughput.tokens_per_second is None else format_rate(status.throughput.tokens_per_second),
    )
    yield _row("AL", number(status.throughput.acceptance_length, 2))
    if status.speculation is not None:
        sign, style = STATES[status.speculation.state]
        yield line(
            (f"{'drafter':<{LABEL_WIDTH}} ", MUTED), (f"{sign} {clean(status.speculation.drafter or 'none')}", style)
        )


def _chat(totals: ChatTotals, width: int) -> Iterator[Line]:
    yield line(("this chat", "bold"))
    yield from facts(totals.parts(), width, MUTED)


def _row(label: str, value: str) -> Line:
    return line((f"{label:<{LABEL_WIDTH}} ", MUTED), (value, "bold"))
