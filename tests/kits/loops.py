"""Waiting for tasks without a clock."""

from __future__ import annotations

import asyncio


async def settled() -> None:
    """Until every other task has come as far as it can without the outside world."""
    for _ in range(10):
        await asyncio.sleep(0)
