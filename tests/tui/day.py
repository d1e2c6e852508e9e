"""A day of snapshots through the dashboard in minutes: `python -m tests.tui.day`.

The recorded stream is sent over and over, as many snapshots as a daemon sends in so many hours and each with an event
of its own, as fast as the dashboard reads. Prints resident memory as it goes; the exit code is 1 when it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from functools import partial
from itertools import cycle

import psutil

from homespec.server.sse import STATUS_INTERVAL_S
from homespec.status import Event
from homespec.tui.app import TopApp
from homespec.units import MIB
from tests.client.daemon_double import DaemonDouble

from .recording import load
from .screen import top, until

NUM_STEPS = 10
MAX_GROWTH_BYTES = 8 * MIB
"""From the end of the second tenth: rings are full by then."""


async def replay(hours: float) -> list[int]:
    """Resident bytes after each tenth; another screen is shown during each."""
    total = int(hours * 3600 / STATUS_INTERVAL_S)
    statuses = cycle([step.status for step in load("speculating") if step.status])
    process, held, sent = psutil.Process(), [], 0
    with DaemonDouble() as daemon:
        app = top(daemon.url)
        async with app.run_test(size=(120, 40)) as pilot:
            for step in range(NUM_STEPS):
                while sent < total * (step + 1) // NUM_STEPS:
                    sent += 1
                    status = replace(
                        next(statuses), uptime_s=float(sent), events=(Event(sent, "engine", f"event {sent}"),)
                    )
                    daemon.send(status)
                    if sent % 20 == 0:
                        await until(pilot, partial(_has_seen, app, float(sent)))
                # Every screen, so that all are there from the first tenth on.
                await pilot.press(*"12345", str(step % 5 + 1))
                held.append(process.memory_info().rss)
                print(f"{sent} snapshots, {len(app._watch.log)} events kept: {held[-1] / MIB:.1f} MiB", flush=True)
    return held


def _has_seen(app: TopApp, uptime_s: float) -> bool:
    latest = app._watch.latest
    return latest is not None and latest.uptime_s >= uptime_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hours", type=float, default=24.0)
    held = asyncio.run(replay(parser.parse_args().hours))
    growth = held[-1] - held[1]
    print(f"grown by {growth / MIB:.1f} MiB since the second tenth")
    return int(growth > MAX_GROWTH_BYTES)


if __name__ == "__main__":
    sys.exit(main())
