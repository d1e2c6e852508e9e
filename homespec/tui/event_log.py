"""The events of one daemon over time, put together from its snapshots. Bounded: memory stays flat for days."""

from __future__ import annotations

from collections import deque

from homespec.status import Event, Status

CAPACITY = 5000
GAP = Event(0.0, "top", "events are missing here: more came between two snapshots than the daemon keeps")


class EventLog:
    """Oldest first. A snapshot carries the latest events only; those that were seen before are not added again."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._last: Event | None = None
        self._uptime_s = 0.0
        self.num_added = 0
        """Grows with every event, also when an old one falls off."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, status: Status) -> None:
        """Take in what is new in a snapshot; a gap is told as an event of its own."""
        restarted = status.uptime_s < self._uptime_s
        self._uptime_s = status.uptime_s
        if not status.events or status.events[-1] == self._last:
            return
        new = news(status.events, None if restarted else self._last)
        if self._last is not None and not restarted and len(new) == len(status.events):
            new = (Event(new[0].time_unix, GAP.kind, GAP.text), *new)
        self._events.extend(new)
        self.num_added += len(new)
        self._last = status.events[-1]

    def matching(self, kind: str | None, text: str) -> list[Event]:
        """Events of one kind (None: of all) that hold the text, whatever the case."""
        wanted = text.casefold()
        return [
            event
            for event in self._events
            if kind in (None, event.kind) and (not wanted or wanted in f"{event.kind}: {event.text}".casefold())
        ]

    def kinds(self) -> list[str]:
        """Kinds of the events that are kept, in alphabetical order."""
        return sorted({event.kind for event in self._events})


def news(events: tuple[Event, ...], last: Event | None) -> tuple[Event, ...]:
    """The events after `last`; all of them when it is not among them."""
    for place in reversed(range(len(events))):
        if events[place] == last:
            return events[place + 1 :]
    return events
