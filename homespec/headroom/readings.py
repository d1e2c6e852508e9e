"""What is read of memory: frozen values. None where a value cannot be read, never a guess."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The box's own memory."""

    total_bytes: int | None
    available_bytes: int | None
    """What a process could still get without swapping. Pages of mapped files count, the target's too."""


@dataclass(frozen=True, slots=True)
class CardReading:
    """An NVIDIA card through NVML."""

    total_bytes: int | None
    free_bytes: int | None
    source: str
    """The query that answered, or why none did."""
    is_supported: bool = True
    """False: NVML knows the card and says that it has no memory of its own to tell of."""
    is_lost: bool = False
    """A card that was there before is gone, or the driver does not know what it does."""

    @classmethod
    def unknown(cls, reason: str) -> CardReading:
        return cls(None, None, reason)


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of memory that allocations compete for."""

    name: str
    description: str
    total_bytes: int | None
    free_bytes: int | None
    source: str
    """Where the numbers come from, or why there are none."""
    members: tuple[str, ...]
    """Names of llama.cpp's devices whose buffers lie in it."""
