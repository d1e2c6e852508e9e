"""All drafters of the engine: which are there, which may be used, and why not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from homespec.engine.drafters.drafter import Draft, Drafter, DraftRequest
from homespec.engine.drafters.ngram import NgramDrafter
from homespec.errors import HomespecError
from homespec.status import DrafterStatus, DraftState, ModelMemory
from homespec.units import format_bytes, format_duration

logger = logging.getLogger("homespec.engine.drafters")

T = TypeVar("T")

AUTO, OFF = "auto", "off"
NAMES = ("draft", "ngram")
"""Every drafter, best first: what `auto` tries in order."""


_GRAMMAR = DrafterStatus("grammar", DraftState.READY, "free: proposes what a constraint forces")


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter for a request, or why there is none."""

    drafter: Drafter | None
    reason: str


class Roster:
    """Owned by the scheduler thread. Loading happens elsewhere: `load` starts it, `loaded` or `failed` end it."""

    def __init__(
        self,
        mode: str,
        *,
        draft_path: str | None,
        load: Callable[[], None],
        announce: Callable[[str], None],
        quarantined: dict[str, str] | None = None,
    ) -> None:
        self.mode = mode
        self._load = load
        self._announce = announce
        self._quarantined = dict(quarantined or {})
        self._drafters: dict[str, Drafter] = {"ngram": NgramDrafter()}
        self._load_started = 0.0
        no_path = "no draft model configured; pass --draft PATH"
        self._states = {
            "draft": DrafterStatus("draft", DraftState.OFF, no_path if draft_path is None else "", draft_path),
            "ngram": DrafterStatus("ngram", DraftState.READY, "free: looks up earlier text"),
        }
        for name, reason in self._quarantined.items():
            self._set(name, DraftState.OFF, reason)
        self._drafters = {name: drafter for name, drafter in self._drafters.items() if name not in self._quarantined}
        self.set_mode(mode)

    def set_mode(self, mode: str) -> None:
        """Apply the process-wide switch: load the draft model when it may be used, unload it when it may not.

        Naming a quarantined drafter is asking to try it again.
        """
        self.mode = mode
        self._quarantined.pop(mode, None)
        draft = self._states["draft"]
        if draft.path is None or "draft" in self._quarantined:
            return
        if mode in (AUTO, "draft"):
            if draft.state is DraftState.OFF:
                self._set("draft", DraftState.LOADING, f"loading {draft.path}")
                self._load_started = time.monotonic()
                self._load()
        elif draft.state is DraftState.READY:
            self._unload(f"unloaded: drafting is switched to {mode!r}")
        elif draft.state is DraftState.OFF and not draft.reason:
            self._set("draft", DraftState.OFF, f"not loaded: drafting is switched to {mode!r}")

    def loaded(self, drafter: Drafter) -> None:
        """The draft model is in memory; it is used from the next round on, unless it was switched off meanwhile."""
        if self.mode not in (AUTO, "draft"):
            drafter.shutdown()
            self._set("draft", DraftState.OFF, f"not loaded: drafting is switched to {self.mode!r}")
            return
        self._drafters["draft"] = drafter
        took = format_duration(time.monotonic() - self._load_started)
        size = format_bytes(drafter.memory.total_bytes)
        self._set("draft", DraftState.READY, f"loaded in {took}, {size}")

    def failed(self, name: str, reason: str) -> None:
        """The drafter cannot be used; the target goes on."""
        drafter = self._drafters.pop(name, None)
        if drafter is not None:
            drafter.shutdown()
        self._set(name, DraftState.OFF, reason)

    def choose(self, wanted: str) -> Choice:
        """The drafter for a request that asked for `wanted`."""
        if self.mode == OFF:
            return Choice(None, "drafting is switched off for the whole server")
        if wanted == OFF:
            return Choice(None, "switched off by the request")
        name = wanted if wanted != AUTO else self.mode
        if name == AUTO:
            ready = [self._drafters[name] for name in NAMES if name in self._drafters]
            return Choice(ready[0], "") if ready else Choice(None, "no drafter is ready")
        if name in self._drafters:
            return Choice(self._drafters[name], "")
        return Choice(None, f"{name} is {self._states[name].state}: {self._states[name].reason}")

    def active(self) -> DrafterStatus | None:
        """The drafter that `auto` requests get now, or the one that the switch names and that is not ready."""
        chosen = self.choose(AUTO).drafter
        if chosen is not None:
            return self._states[chosen.name]
        return self._states.get(self.mode)

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """Tell every drafter of a new sequence; see Drafter.begin."""
        for name in list(self._drafters):
            self._guard(name, lambda drafter: drafter.begin(slot_id, source_id, num_shared))

    def prefill(self, wanted: str, slot_id: int, token_ids: list[int]) -> None:
        """Let the drafter of a request follow its prompt; see Drafter.prefill."""
        drafter = self.choose(wanted).drafter
        if drafter is not None:
            self._guard(drafter.name, lambda drafter: drafter.prefill(slot_id, token_ids))

    def propose(self, drafter: Drafter, requests: Sequence[DraftRequest]) -> list[Draft]:
        """One draft per request; empty ones when the drafter breaks."""
        drafts = self._guard(drafter.name, lambda drafter: drafter.propose(requests))
        return drafts if drafts is not None else [Draft([], "drafter broke") for _ in requests]

    def close(self, slot_id: int) -> None:
        for name in list(self._drafters):
            self._guard(name, lambda drafter: drafter.close(slot_id))

    def statuses(self) -> tuple[DrafterStatus, ...]:
        return (*(self._states[name] for name in NAMES), _GRAMMAR)

    @property
    def memory(self) -> ModelMemory:
        held = [drafter.memory for drafter in self._drafters.values()]
        return ModelMemory(
            sum(memory.weights_bytes for memory in held),
            sum(memory.kv_bytes for memory in held),
            sum(memory.compute_bytes for memory in held),
        )

    def shutdown(self) -> None:
        for drafter in self._drafters.values():
            drafter.shutdown()
        self._drafters.clear()

    def _guard(self, name: str, work: Callable[[Drafter], T]) -> T | None:
        """The edge at which a drafter's faults end: it is off, the target goes on."""
        try:
            return work(self._drafters[name])
        except HomespecError as error:
            self.failed(name, f"broke: {error}")
        except Exception as error:
            logger.exception("drafter %s broke", name)
            self.failed(name, f"broke: {type(error).__name__}: {error}")
        return None

    def _unload(self, reason: str) -> None:
        self._set("draft", DraftState.UNLOADING, reason)
        self._drafters.pop("draft").shutdown()
        self._set("draft", DraftState.OFF, reason)

    def _set(self, name: str, state: DraftState, reason: str) -> None:
        self._states[name] = replace(self._states[name], state=state, reason=reason)
        self._announce(f"{name} {state}: {reason}")
