"""What drafts, how often it is right, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from homespec.stats import DraftStats


class DraftState(StrEnum):
    """Life of one drafter."""

    OFF = "off"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True)
class DrafterStatus:
    """One drafter and why it is in its state."""

    name: str
    state: DraftState
    reason: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyTable:
    """T_verify over rows and context, as tracked up to now."""

    contexts: tuple[int, ...]
    """Ascending: tokens in the KV cache before the pass."""
    rows: tuple[int, ...]
    """Ascending; the first is 1."""
    ms: tuple[tuple[float, ...], ...]
    """One line per context, one entry per row count."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Draft tokens of about one confidence: what became of them, beside what was expected."""

    low: float | None
    """The confidence is above this; None: of tokens that came without one."""
    high: float | None
    """And at most this."""
    count: int
    """Tokens that the target has judged: given that it took those before. Free drafters are judged in every round."""
    observed: float
    """Share that was taken."""
    expected: float
    """Mean of the forecasts for the same tokens."""


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """What the decisions are made from, and what they came to."""

    costs: str
    """Where they come from: `measured`, `kept` from earlier runs, `rechecking` (kept, and measured again while idle),
    `assumed`, or `unknown` as yet."""
    plain_ms: float | None
    """T(1): one row in a short context, as tracked."""
    row_costs: dict[int, float]
    """T(rows)/T(1), as tracked."""
    draft_costs: dict[str, float]
    """Of each drafter that takes time: one draft token in T(1)."""
    paused: dict[str, str]
    """Drafters that are left alone, with the reason in numbers."""
    predicted_speedup: float | None
    """Over plain decoding, by what was expected of the last rounds."""
    measured_speedup: float | None
    """The same by the clock."""
    decision_us: float | None
    """Microseconds that deciding takes per sequence and round."""
    verify_table: VerifyTable | None = None
    """None while the costs are unknown."""
    draft_ms: dict[str, dict[int, float]] = field(default_factory=dict)
    """Of each drafter that takes time: one draft by D, for one sequence."""
    reliability: dict[str, tuple[ReliabilityBin, ...]] = field(default_factory=dict)
    """By drafter and confidence, ascending; bins without a token are left out."""
    threads: tuple[int, int] | None = None
    """That decode a single row, and a batch of rows."""
    state_copy_ms: float | None = None
    """What keeping a recurrent state, and putting it back, takes when a sequence drafts; None where rows can simply be
    taken back."""


@dataclass(frozen=True, slots=True)
class SpeculationStatus:
    """What drafts at the moment, and how well."""

    mode: str
    """The process-wide switch: auto, off, or the name of a drafter."""
    drafter: str | None
    """The drafter that `mode` selects now: of several the model, else the first that is asked; None when nothing
    drafts."""
    state: DraftState
    reason: str
    max_draft_tokens: int
    drafters: tuple[DrafterStatus, ...]
    totals: dict[str, DraftStats]
    """Per drafter, since the engine started."""
    controller: ControllerStatus | None = None
    """None while D is fixed."""
    order: tuple[str, ...] = ()
    """Every drafter of an `auto` request, the preferred one first; empty when nothing drafts."""

    def no_such(self, name: str) -> str | None:
        """Why there is nothing that this name could switch on; None where there is."""
        known = {each.name: each for each in self.drafters}
        if name not in known:
            return no_drafter(name, [each for each in known if each != "grammar"])
        return known[name].reason if name == "draft" and known[name].path is None else None


def no_drafter(name: str, names: Iterable[str]) -> str:
    """What is said of a name that stands for nothing here."""
    return f"there is no drafter {name!r} here; there are {', '.join(names)}"
