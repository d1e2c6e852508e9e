"""Requests that wait for the engine: one bounded queue, served client by client in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from homespec.supervision.job import Job


class FairQueue:
    """First come, first served within a client; among clients in turn. Not thread-safe.

    When it is full, the newest job of the client with the longest line makes room for one whose line is shorter
    (longest queue drop, McKenney, *Stochastic Fairness Queueing*, 1990): one that floods the server shuts itself out
    and nobody else.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[Job]] = {}
        """By client, whose turn it is first. No line is empty."""

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def jobs(self) -> list[Job]:
        return [job for line in self._lines.values() for job in line]

    def put(self, job: Job) -> None:
        self._lines.setdefault(job.client, deque()).append(job)

    def put_back(self, job: Job) -> None:
        """In front of all others of its client: it has had its turn before."""
        self._lines.setdefault(job.client, deque()).appendleft(job)

    def pop(self, may_start: Callable[[Job], bool] = lambda _: True) -> Job | None:
        """The next job of those that may start; its client then comes last."""
        for client, line in self._lines.items():
            job = next(filter(may_start, line), None)
            if job is None:
                continue
            line.remove(job)
            del self._lines[client]
            if line:
                self._lines[client] = line
            return job
        return None

    def remove(self, job: Job) -> bool:
        """False when it does not wait here."""
        line = self._lines.get(job.client)
        if line is None or job not in line:
            return False
        line.remove(job)
        if not line:
            del self._lines[job.client]
        return True

    def make_room_for(self, client: str) -> Job | None:
        """Take out the newest job of the longest line, unless the line of `client` would become as long as that."""
        if not self._lines:
            return None
        longest = max(self._lines.values(), key=len)
        if len(self._lines.get(client, ())) + 1 >= len(longest):
            return None
        newest = longest[-1]
        self.remove(newest)
        return newest

    def waiting_since(self, before: float) -> list[Job]:
        """Jobs that were received before that time, on the clock of time.monotonic."""
        return [job for job in self.jobs() if job.received_at < before]
