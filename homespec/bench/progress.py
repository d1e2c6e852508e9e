"""How far a bench is, on stderr: a bar in a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

REFRESH_HZ = 2


@contextmanager
def progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """Yields a function that takes what is being done and how many of `total` are over."""
    console = Console(file=sys.stderr)
    columns = (
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    # Drawing takes time from the cores that are measured.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, refresh_per_second=REFRESH_HZ
    ) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda text, done: bar.update(task, description=text, completed=done)
