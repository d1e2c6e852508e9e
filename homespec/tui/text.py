"""Numbers and words as short, cell-exact text. Pure."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from homespec.units import clean, clean_lines, format_duration

UNKNOWN = "–"


def printable(text: str) -> str:
    """Lines of text without control characters, for what a model wrote."""
    return clean_lines(text).expandtabs(4)


def fit(text: str, width: int) -> str:
    """Exactly `width` cells: padded on the right, or cut with an ellipsis."""
    text = clean(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 1 else set_cell_size("…", max(width, 0))


def fit_right(text: str, width: int) -> str:
    """Like `fit`, but padded on the left: for columns of numbers."""
    fitted = fit(text, width)
    kept = fitted.rstrip()
    return " " * (len(fitted) - len(kept)) + kept


def fit_tail(text: str, width: int) -> str:
    """Exactly `width` cells, keeping the end: ids differ there."""
    text = clean(text)
    if cell_len(text) > width:
        while text and cell_len(text) > width - 1:
            text = text[1:]
        text = f"…{text}"
    return set_cell_size(text, max(width, 0))


def number(value: float | None, digits: int = 1) -> str:
    """`3.4`; a dash when unknown."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def age(seconds: float) -> str:
    """`12 s`, `3m 4s`: whole seconds, because it is watched while it grows."""
    return f"{int(seconds)} s" if seconds < 60 else format_duration(seconds)


def percent(ratio: float | None) -> str:
    """`62 %`; a dash when unknown."""
    return UNKNOWN if ratio is None else f"{ratio * 100:.0f} %"


def count(value: int) -> str:
    """`812`, `12.3k`, `4.5M`: at most five cells up to a thousand billions."""
    if value < 10_000:
        return str(value)
    for size, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            scaled = value / size
            return f"{scaled:.1f}{name}" if scaled < 100 else f"{int(scaled)}{name}"
    raise AssertionError("unreachable: ten thousand or more matches a row above")
