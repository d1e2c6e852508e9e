"""What was planned for the memory of the two models before they were loaded, and what became of each drafter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """Bytes that one model was expected to take, counted as llama.cpp logs them at the load."""

    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    """Compute and output buffers."""
    growth_bytes: int
    """What the output buffer takes beyond that once a full batch has come."""
    n_ctx: int
    kv_type: str
    measured: bool
    """By llama.cpp without loading anything; False: computed from the file's header."""
    note: str = ""
    """Why it was computed."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one candidate for drafting."""

    path: str | None
    """None: the drafters that take no memory."""
    is_admitted: bool
    reason: str
    """With the numbers."""
    needed_bytes: int | None = None
    """What it would take as it would be loaded; None: not estimated."""
    expected_speedup: float | None = None
    """Before anything was measured."""
    num_draft_tokens: int | None = None
    """D that the expectation is for."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The plan that the engine was started with."""

    target: PlannedModel
    drafter: PlannedModel | None
    """None when none with memory of its own was admitted."""
    verdicts: tuple[Verdict, ...] = ()
    changes: tuple[str, ...] = ()
    """Automatic values that are not what they are on a box with room, each with its reason."""
