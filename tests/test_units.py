from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.units import (
    GIB,
    KIB,
    MIB,
    clean,
    format_bytes,
    format_duration,
    format_exit,
    format_rate,
    format_ratio,
    one_line,
)


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (None, "n/a"),
        (0, "0 B"),
        (512, "512 B"),
        (KIB, "1.0 KiB"),
        (MIB - 1, "1024 KiB"),
        (int(93.8 * MIB), "93.8 MiB"),
        (3 * GIB // 2, "1.50 GiB"),
        (-2 * GIB, "-2.00 GiB"),
        (int(99.99 * GIB), "99.99 GiB"),
        (int(123.4 * GIB), "123.4 GiB"),
    ],
)
def test_bytes(num_bytes: int | None, shown: str) -> None:
    assert format_bytes(num_bytes) == shown


@given(st.integers(0, 999 * GIB))
def test_sizes_fit_into_a_column(num_bytes: int) -> None:
    assert len(format_bytes(num_bytes)) <= len("99.99 GiB")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "n/a"),
        (0, "0ms"),
        (0.045, "45ms"),
        (8.24, "8.2s"),
        (69, "1m 9s"),
        (3600, "1h 0m"),
        (7500, "2h 5m"),
        (3 * 86400 + 4 * 3600, "3d 4h"),
    ],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert format_duration(seconds) == shown


@given(st.floats(0, 1e9))
def test_every_duration_can_be_shown(seconds: float) -> None:
    assert format_duration(seconds)


def test_rates_and_ratios() -> None:
    assert format_rate(83.14) == "83.1 tok/s"
    assert format_rate(0.0) == "0.0 tok/s"
    assert format_rate(None) == "n/a"
    assert format_ratio(0.617) == "62 %"
    assert format_ratio(0.0) == "0 %"
    assert format_ratio(None) == "n/a"


@given(st.text())
def test_one_line_is_one_line_and_printable(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    assert "\n" not in shown


def test_one_line_keeps_what_can_be_read_and_escapes_the_rest() -> None:
    assert one_line("modèle 😀.gguf") == "modèle 😀.gguf"
    assert one_line("a\nb\x1b[31m") == r"a\nb\x1b[31m"
    assert one_line("inv\udcff") == r"inv\udcff"


@given(st.text())
def test_clean_text_cannot_steer_a_terminal(text: str) -> None:
    shown = clean(text)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in shown)
    assert not set(shown) & set("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert shown == shown.strip()


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exited with code 0"), (3, "exited with code 3"), (-6, "killed by SIGABRT"), (-77, "killed by signal 77")],
)
def test_the_end_of_a_process(code: int, text: str) -> None:
    assert format_exit(code) == text


def test_a_name_cannot_turn_what_stands_beside_it() -> None:
    assert clean("model\u202efugg.x") == "model fugg.x"
    assert clean("می\u200cخواهم") == "می\u200cخواهم"  # a joiner is part of the word
