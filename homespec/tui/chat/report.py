"""The numbers of an answer, and of all answers of a chat, in one line. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.client.answer import Answer
from homespec.status import SpeculationReport
from homespec.units import clean, format_duration, format_rate, format_ratio


def answer_line(answer: Answer) -> str:
    """`57 tokens · 83.1 tok/s · TTFT 45ms · AL 3.42 · accepted 40/48 (83 %) · drafter suffix ready: reason`"""
    parts = []
    if answer.timings is not None:
        parts += [f"{answer.timings.predicted_n} tokens", format_rate(answer.timings.predicted_per_second)]
    if answer.time_to_first_token_s is not None:
        parts.append(f"TTFT {format_duration(answer.time_to_first_token_s)}")
    if answer.speculation is not None:
        parts += _speculation(answer.speculation)
    if answer.finish_reason == "length":
        parts.append("cut at the token limit")
    if answer.cancelled:
        parts.append("stopped")
    return " · ".join(parts)


def _speculation(report: SpeculationReport) -> list[str]:
    parts = []
    if report.acceptance_length is not None:
        parts.append(f"AL {report.acceptance_length:.2f}")
    if report.drafted:
        rate = format_ratio(report.accepted / report.drafted)
        parts.append(f"accepted {report.accepted}/{report.drafted} ({rate})")
    if not report.drafters:
        parts.append("nothing drafted")
    names = ", ".join(map(clean, report.drafters))
    reason = f": {clean(report.reason)}" if report.reason else ""
    return [*parts, f"drafter {names}{' ' if names else ''}{report.state}{reason}"]


@dataclass(slots=True)
class ChatTotals:
    """Sums over the answers whose numbers came."""

    answers: int = 0
    tokens: int = 0
    decode_s: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, answer: Answer) -> None:
        if answer.timings is not None:
            self.answers += 1
            self.tokens += answer.timings.predicted_n
            self.decode_s += answer.timings.predicted_ms / 1000
        if answer.speculation is not None:
            self.rounds += answer.speculation.rounds
            self.drafted += answer.speculation.drafted
            self.accepted += answer.speculation.accepted

    def line(self) -> str:
        """All answers together."""
        return " · ".join(self.parts())

    def parts(self) -> list[str]:
        """One number each."""
        rate = self.tokens / self.decode_s if self.decode_s else None
        parts = [f"{self.answers} answer{'' if self.answers == 1 else 's'}", f"{self.tokens} tokens", format_rate(rate)]
        if self.rounds:
            parts.append(f"AL {self.tokens / self.rounds:.2f}")
        if self.drafted:
            parts.append(f"accepted {self.accepted}/{self.drafted} ({format_ratio(self.accepted / self.drafted)})")
        return parts
