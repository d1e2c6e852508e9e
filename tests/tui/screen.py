"""Reading what a running dashboard shows, and waiting for it to show something."""

from __future__ import annotations

import asyncio
import html
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot
from textual.widget import Widget

from homespec.client.http import Client
from homespec.status import Status
from homespec.tui.app import TopApp
from tests.client.daemon_double import DaemonDouble

PATIENCE_S = 30
RETRY_S = 0.05
TICK_S = 0.1
_TEXT = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


def top(url: str, api_key: str | None = None) -> TopApp:
    """A dashboard that does not wait long between attempts, nor between what it draws."""
    return TopApp(Client(url, api_key), first_pause_s=RETRY_S, tick_s=TICK_S)


def shown(app: TopApp, selector: str) -> str:
    """The text that one widget draws, the last one that matches; empty when there is none."""
    found = app.view.query(selector)
    return str(found.last(Widget).render()) if found else ""


def screen_text(app: TopApp) -> list[str]:
    """The rows of the screen, as a person sees them."""
    rows: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for x, y, text in _TEXT.findall(app.export_screenshot(simplify=True)):
        rows[float(y)].append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]


def painted(app: TopApp, selector: str) -> str:
    """What stands on the screen where a widget is, its frame and heading included."""
    region = app.view.query(selector).last(Widget).region
    strips = app.screen._compositor.render_strips(app.size)[region.y : region.bottom]
    return "\n".join(strip.crop(region.x, region.right).text for strip in strips)


@asynccontextmanager
async def watching(
    daemon: DaemonDouble, status: Status | None = None, size: tuple[int, int] = (80, 24), *, keys: tuple[str, ...] = ()
) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    """A running dashboard that shows the given snapshot already, after these keys."""
    if status is not None:
        daemon.send(status)
    app = top(daemon.url)
    async with app.run_test(size=size, notifications=True) as pilot:
        if status is not None:
            await until(pilot, lambda: app.status == status)
        await pilot.press(*keys)
        if status is not None:
            await until(pilot, lambda: app.status == status)
        await pilot.pause()
        yield app, pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app run until the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await pilot.pause(0.01)


async def until_shown(pilot: Pilot[None], selector: str, text: str) -> None:
    """Let the app run until a widget draws the text."""
    app = pilot.app
    assert isinstance(app, TopApp)
    try:
        await until(pilot, lambda: text in shown(app, selector))
    except TimeoutError:
        raise AssertionError(f"{text!r} never came up in {selector}:\n{shown(app, selector)}") from None
