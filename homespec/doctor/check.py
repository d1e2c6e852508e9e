"""One thing that may be wrong with a box, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from homespec.errors import ExitCode, HomespecError


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It works, worse than it could."""
    FAIL = "fail"
    """It does not work, or will not."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    verdict: Verdict
    text: str
    """What was found, in one line."""
    remedy: str | None = None
    """What to do about it; None when there is nothing to do."""


def ok(name: str, text: str) -> Check:
    return Check(name, Verdict.OK, text)


def warn(name: str, text: str, remedy: str) -> Check:
    return Check(name, Verdict.WARN, text, remedy)


def fail(name: str, text: str, remedy: str) -> Check:
    return Check(name, Verdict.FAIL, text, remedy)


def exit_code(checks: Iterable[Check]) -> ExitCode:
    """FAILURE when something does not work; a warning is none."""
    return ExitCode.FAILURE if any(check.verdict is Verdict.FAIL for check in checks) else ExitCode.OK


def of_error(name: str, error: HomespecError, otherwise: str) -> Check:
    """An error as a check: our errors end with their remedy behind a semicolon; `otherwise` where one has none."""
    text, _, remedy = str(error).rpartition("; ")
    return fail(name, text, remedy) if text else fail(name, remedy, otherwise)
