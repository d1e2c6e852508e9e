"""The dashboard in a real browser, over a real daemon that answers."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons import Daemon, eventually, running
from tests.kits.browser import Page, browsing
from tests.server.conftest import REPEATABLE_FLAGS

from .web_page import web_page

pytestmark = [pytest.mark.process, pytest.mark.real]

PATIENCE_S = 60.0
ENDLESS = {"prompt": "one two three four one two three four one two", "max_tokens": 1500, "ignore_eos": True}


@contextmanager
def answering(daemon: Daemon) -> Iterator[None]:
    """A client that always has a question more."""
    enough = threading.Event()

    def ask() -> None:
        while not enough.is_set():
            with daemon.stream("/v1/completions", ENDLESS) as stream:
                for _ in stream.data():
                    if enough.is_set():
                        return

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield
    finally:
        enough.set()
        client.join()


def watch(page: Page, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}; the page got {page.received()[-2000:]!r}"
        page.listen(0.2)


def test_it_shows_numbers_that_move_and_switches_the_drafter_off(tmp_path: Path) -> None:
    with (
        browsing(tmp_path) as page,
        running(tmp_path, "--demo", *REPEATABLE_FLAGS) as daemon,
        answering(daemon),
        web_page(daemon.url) as url,
    ):
        page.open(url)
        watch(page, lambda: len(set(re.findall(rb"(\d+\.\d) tok/s", page.received()))) >= 2, "the speed changes")
        before = page.picture()
        page.click(200, 8)  # the line with the name: nothing happens but that the terminal has the keys
        page.press("d")
        watch(page, lambda: b"plain decoding" in page.received(), "the choice of drafters comes up")
        page.press("ArrowDown")
        page.press("Enter")
        eventually(lambda: daemon.status()["speculation"]["mode"] == "off", "drafting is off", PATIENCE_S)
        watch(page, lambda: b"mode off" in page.received(), "the page says so")
        assert page.picture() != before
        assert page.requested()
        assert all(each.startswith((url, "data:", "about:")) for each in page.requested()), page.requested()
