"""All drafters of the engine: which are there, which may be used, and why not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from homespec.engine.drafters.choice import FREE_TEXTS, Candidate, Choice
from homespec.engine.drafters.drafter import Draft, Drafter, DraftRequest
from homespec.engine.drafters.kind import DRAFT
from homespec.engine.drafters.ngram import NgramDrafter
from homespec.engine.drafters.past import PastOutputs
from homespec.engine.drafters.suffix import SuffixDrafter
from homespec.errors import HomespecError
from homespec.status import DrafterStatus, DraftState, ModelMemory
from homespec.status.drafting import no_drafter
from homespec.units import format_bytes, format_duration

logger = logging.getLogger("homespec.engine.drafters")

T = TypeVar("T")

AUTO, OFF = "auto", "off"
SURE = 0.8
"""Under `auto`, a free drafter goes before a model when it is at least this sure."""

_GRAMMAR = DrafterStatus("grammar", DraftState.READY, "free: proposes what a constraint forces")


class Roster:
    """Owned by the scheduler thread. Loading happens elsewhere: `load` starts it, `loaded` or `failed` end it.

    The draft model is in memory or on its way only while it is wanted: the switch lets it, and it is neither withdrawn
    nor parked.
    """

    def __init__(
        self,
        mode: str,
        *,
        draft_path: str | None,
        draft_kind: str = DRAFT,
        load: Callable[[], None],
        announce: Callable[[str], None],
        quarantined: dict[str, str] | None = None,
        past: PastOutputs | None = None,
        withdrawn: str = "",
        refused: dict[str, str] | None = None,
    ) -> None:
        """draft_kind: what the draft file holds, which is the name of the drafter that comes of it."""
        self.mode = mode
        self.file_drafter = draft_kind
        self.names = ("suffix", draft_kind, "ngram")
        """Every drafter, in the order in which `auto` asks them."""
        self._withdrawn = withdrawn
        self._parked = ""
        """Why the draft model is not worth its memory; empty when it is."""
        self._is_loading = False
        self._is_broken = False
        """Broken: it failed to load or broke at work, and stays off until the switch is set again."""
        self._load = load
        self._announce = announce
        self._quarantined = dict(quarantined or {})
        self._past = past
        self._refused = dict(refused or {})
        """Do not fit: asking for them does not change that, `admit` does."""
        self._drafters: dict[str, Drafter] = {}
        self._load_started = 0.0
        no_path = "no draft model configured; pass --draft PATH"
        self._states = {
            draft_kind: DrafterStatus(draft_kind, DraftState.OFF, no_path if draft_path is None else "", draft_path),
            **{name: DrafterStatus(name, DraftState.READY, text) for name, text in FREE_TEXTS.items()},
        }
        # The daemon does not look into the file: it knows the drafter by its place only.
        for barred in (self._quarantined, self._refused):
            if DRAFT in barred:
                barred[draft_kind] = barred.pop(DRAFT)
            for name in barred.keys() & self._states.keys():
                self._set(name, DraftState.OFF, barred[name])
        for name in FREE_TEXTS.keys() - self._quarantined.keys() - self._refused.keys():
            self._drafters[name] = self._free(name)
        self._settle()

    def set_mode(self, mode: str) -> None:
        """Apply the process-wide switch: load the draft model when it may be used, unload it when it may not.

        Naming a quarantined drafter is asking to try it again.
        """
        self.mode = mode
        self._quarantined.pop(mode, None)
        if mode in FREE_TEXTS and mode not in self._drafters and mode not in self._refused:
            self._drafters[mode] = self._free(mode)
            self._set(mode, DraftState.READY, FREE_TEXTS[mode])
        self._is_broken, self._parked = False, ""
        self._settle()

    def withdraw(self, reason: str) -> None:
        """Memory is short: the draft model goes at once, a load is given up, and none begins until `readmit`."""
        self._withdrawn = reason
        self._settle()

    def readmit(self) -> None:
        """Memory is there again: the draft model may be loaded as far as the switch goes."""
        self._withdrawn = ""
        self._settle()

    def admit(self) -> None:
        """There is room for the draft model, which there was not: it may be loaded as far as the switch goes."""
        self._refused.pop(self.file_drafter, None)
        self._settle()

    def reload(self) -> None:
        """Unload the draft model and load it again, as far as it may be loaded; what it was off for is forgiven."""
        self._quarantined.pop(self.file_drafter, None)
        self._is_broken, self._parked = False, ""
        if (drafter := self._drafters.pop(self.file_drafter, None)) is not None:
            self._set(self.file_drafter, DraftState.UNLOADING, "to be loaded again")
            drafter.shutdown()
        self._settle()

    def park(self, name: str, reason: str) -> bool:
        """Under `auto`, a draft model that never pays gives its memory back until it is asked for; whether it does."""
        if name != self.file_drafter or name not in self._drafters or self.mode != AUTO:
            return False
        self._parked = f"parked: {reason}; back when it is named, or drafting is switched to {AUTO!r} again"
        self._settle()
        return True

    def ask(self, wanted: str) -> None:
        """A request names its drafter: one that is parked comes back, for this request or the next."""
        if wanted == self.file_drafter and self._parked:
            self._parked = ""
            self._settle()

    @property
    def wants_draft(self) -> bool:
        """Whether the draft model may be in memory. Any thread may ask: the loader does while it loads."""
        if self._withdrawn or self._parked or self._is_barred:
            return False
        return self.mode in (AUTO, self.file_drafter)

    @property
    def _is_barred(self) -> bool:
        """The draft model is off for a reason of its own."""
        return self._is_broken or self.file_drafter in self._quarantined or self.file_drafter in self._refused

    def loaded(self, drafter: Drafter) -> None:
        """The draft model is in memory; it is used from the next round on, unless it is not wanted any more."""
        self._is_loading = self._is_broken = False
        if not self.wants_draft:
            drafter.shutdown()
            self._set(self.file_drafter, DraftState.OFF, self._unwanted())
            return
        self._drafters[self.file_drafter] = drafter
        took = format_duration(time.monotonic() - self._load_started)
        size = format_bytes(drafter.memory.total_bytes)
        self._set(self.file_drafter, DraftState.READY, f"loaded in {took}, {size}")

    def given_up(self) -> None:
        """The loader has stopped, because the draft model was not wanted while it loaded."""
        self._is_loading = False
        self._settle()  # it may be wanted again by now

    def failed(self, name: str, reason: str) -> None:
        """The drafter cannot be used; the target goes on."""
        drafter = self._drafters.pop(name, None)
        if drafter is not None:
            drafter.shutdown()
        if name == self.file_drafter:
            self._is_loading, self._is_broken = False, True
        self._set(name, DraftState.OFF, reason)

    def choose(self, wanted: str) -> Choice:
        """The drafters for a request that asked for `wanted`."""
        if self.mode == OFF:
            return Choice((), "drafting is switched off for the whole server")
        if wanted == OFF:
            return Choice((), "switched off by the request")
        name = wanted if wanted != AUTO else self.mode
        if name == AUTO:
            return self._chain()
        if name in self._drafters:
            return Choice((Candidate(self._drafters[name]),), drafters=(self._drafters[name],))
        if name not in self._states:
            return Choice((), no_drafter(name, self._states))
        return Choice((), f"{name} is {self._states[name].state}: {self._states[name].reason}")

    def _chain(self) -> Choice:
        """A free drafter that is sure, then the best model; prompt lookup where no model is ready."""
        last = next((name for name in (self.file_drafter, "ngram", "suffix") if name in self._drafters), None)
        if last is None:
            return Choice((), "no drafter is ready")
        first = [Candidate(self._drafters["suffix"], SURE)] if "suffix" in self._drafters and last != "suffix" else []
        every = tuple(self._drafters[name] for name in self.names if name in self._drafters)
        return Choice((*first, Candidate(self._drafters[last])), drafters=every)

    def active(self) -> DrafterStatus | None:
        """The one that stands for those of `auto` requests, or the one that the switch names and that is not ready."""
        chosen = self.choose(AUTO).drafter
        if chosen is not None:
            return self._states[chosen.name]
        return self._states.get(self.mode)

    def drafters(self) -> list[Drafter]:
        """All that are in memory."""
        return list(self._drafters.values())

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """Tell every drafter of a new sequence; see Drafter.begin."""
        for name in list(self._drafters):
            self._guard(name, lambda drafter: drafter.begin(slot_id, source_id, num_shared))

    def prefill(self, wanted: str, slot_id: int, token_ids: list[int]) -> None:
        """Let the drafters of a request follow its prompt; see Drafter.prefill."""
        for candidate in self.choose(wanted).candidates:
            self._guard(candidate.drafter.name, lambda drafter: drafter.prefill(slot_id, token_ids))

    def propose(self, drafter: Drafter, requests: Sequence[DraftRequest]) -> list[Draft]:
        """One draft per request; empty ones when the drafter breaks."""
        drafts = self._guard(drafter.name, lambda drafter: drafter.propose(requests))
        return drafts if drafts is not None else [Draft([], "drafter broke") for _ in requests]

    def remember(self, partition: str, token_ids: Sequence[int], *, lasting: bool) -> None:
        """An answer is complete: later ones of the same partition may repeat it; see PastOutputs.add."""
        if self._past is not None:
            self._past.add(partition, token_ids, lasting=lasting)

    def close(self, slot_id: int) -> None:
        for name in list(self._drafters):
            self._guard(name, lambda drafter: drafter.close(slot_id))

    def statuses(self) -> tuple[DrafterStatus, ...]:
        return (*(self._states[name] for name in self.names), _GRAMMAR)

    @property
    def memory(self) -> ModelMemory:
        return sum((drafter.memory for drafter in self._drafters.values()), ModelMemory())

    def shutdown(self) -> None:
        for drafter in self._drafters.values():
            drafter.shutdown()
        self._drafters.clear()

    def _free(self, name: str) -> Drafter:
        return SuffixDrafter(self._past) if name == "suffix" else NgramDrafter()

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

    def _settle(self) -> None:
        """Bring the draft model to where it is wanted; what is off for a reason of its own stays so."""
        draft = self._states[self.file_drafter]
        if draft.path is None or self._is_barred:
            return
        if self.wants_draft:
            if self.file_drafter not in self._drafters:
                self._begin_load(draft)
            return
        if self.file_drafter in self._drafters:
            self._set(self.file_drafter, DraftState.UNLOADING, self._unwanted())
            self._drafters.pop(self.file_drafter).shutdown()
        self._move(self.file_drafter, DraftState.UNLOADING if self._is_loading else DraftState.OFF, self._unwanted())

    def _begin_load(self, draft: DrafterStatus) -> None:
        self._move(self.file_drafter, DraftState.LOADING, f"loading {draft.path}")
        if not self._is_loading:  # else the load that was to be given up goes on, or its end begins another
            self._is_loading = True
            self._load_started = time.monotonic()
            self._load()

    def _unwanted(self) -> str:
        """Why the draft model is not to be in memory."""
        return self._withdrawn or self._parked or f"not loaded: drafting is switched to {self.mode!r}"

    def _move(self, name: str, state: DraftState, reason: str) -> None:
        """`_set`, unless it is there already."""
        if (self._states[name].state, self._states[name].reason) != (state, reason):
            self._set(name, state, reason)

    def _set(self, name: str, state: DraftState, reason: str) -> None:
        self._states[name] = replace(self._states[name], state=state, reason=reason)
        self._announce(f"{name} {state}: {reason}")
