"""What the user asked for on the command line; None leaves it to the daemon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """Sent with every message; `/system` and `/draft` change it."""

    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    speculative: str | None = None
    """auto, off or the name of a drafter."""
    model: str | None = None
