"""Bytes, seconds and rates as people read them. Numbers stay plain integers and floats everywhere else."""

from __future__ import annotations

import re
import signal

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_MAX_DIGITS = 5
"""Of a size, the point included: columns stay columns."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""Also what ends a line elsewhere, and what turns the direction of all that follows."""
_CONTROL_IN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def format_bytes(num_bytes: int | None) -> str:
    """`1.50 GiB`, `93.8 MiB`, `512 B`, in at most nine characters below 1000 GiB; `n/a` when unknown."""
    if num_bytes is None:
        return "n/a"
    for size, name, digits in ((GIB, "GiB", 2), (MIB, "MiB", 1), (KIB, "KiB", 1)):
        if abs(num_bytes) >= size:
            text = f"{num_bytes / size:.{digits}f}"
            is_long = len(text.lstrip("-")) > _MAX_DIGITS
            return f"{num_bytes / size:.{digits - is_long}f} {name}"
    return f"{num_bytes} B"


def format_duration(seconds: float | None) -> str:
    """`3d 4h`, `2h 5m`, `1m 9s`, `8.2s`, `45ms`; `n/a` when unknown."""
    if seconds is None:
        return "n/a"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    total = int(seconds)
    for size, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if total >= size:
            return f"{total // size}{name} {total % size // smaller}{smaller_name}"
    raise AssertionError("unreachable: a whole minute or more matches a row above")


def format_rate(tokens_per_second: float | None) -> str:
    """`83.1 tok/s`; `n/a` when unknown."""
    return "n/a" if tokens_per_second is None else f"{tokens_per_second:.1f} tok/s"


def format_ratio(ratio: float | None) -> str:
    """`62 %`; `n/a` when unknown."""
    return "n/a" if ratio is None else f"{ratio * 100:.0f} %"


def format_exit(code: int) -> str:
    """How a process ended, by its code as Python has it: `killed by SIGABRT`, `exited with code 3`."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def one_line(text: str) -> str:
    """The text with line breaks, control characters and broken UTF-8 escaped: a file's name can hold them all."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def clean(text: str) -> str:
    """One line without control characters and marks of direction: what comes in must not steer the terminal."""
    return _CONTROL.sub(" ", text).strip()


def clean_lines(text: str) -> str:
    """The same for what a model wrote: line breaks, tabs and blanks stay."""
    return _CONTROL_IN_LINES.sub("", text)
