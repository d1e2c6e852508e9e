"""`suffix`: what most often followed the longest tail that has occurred before, here or in past answers.

After SuffixDecoding (Oliaro et al., arXiv 2411.04975, §4): statistics of continuations under the longest match, drafts
no longer than the match allows, and a cut where the draft as a whole becomes unlikely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.past import PastOutputs
from homespec.engine.drafters.suffix_automaton import ROOT, Place, Step, SuffixAutomaton
from homespec.engine.sampling.sampler import Proposal
from homespec.status import ModelMemory

LENGTH_FACTOR = 2
"""Draft tokens per matched token, SuffixDecoding's alpha (1 to 4 there)."""
MIN_CERTAINTY = 0.2
"""A draft ends where the chance that all of it is right falls below this."""
MIN_MATCH = 2
"""One token alone says too little about the next one."""
MIN_PAST_MATCH = 6
"""Other answers say less: where fewer tokens agree they are right a quarter of the time, and would spoil what is known
of confidences.
"""
_LOOK_BACK = 64
"""Tokens that a past answer is searched for; a longer match would say no more."""


@dataclass(slots=True)
class _Cursor:
    """How far a running sequence agrees with a text that it is not part of."""

    place: Place = ROOT
    num_read: int = 0

    def read(self, automaton: SuffixAutomaton, token_ids: list[int]) -> Place:
        """Follow the tokens that are new since the last call."""
        start = max(self.num_read, len(token_ids) - _LOOK_BACK)
        if start > self.num_read or self.num_read > len(token_ids):
            self.place, start = ROOT, max(0, len(token_ids) - _LOOK_BACK)
        for token_id in token_ids[start:]:
            self.place = automaton.advance(self.place, token_id)
        self.num_read = len(token_ids)
        return self.place


@dataclass(slots=True)
class _Running:
    """What is known of the sequence in one slot."""

    automaton: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    known: list[int] = field(default_factory=list)
    """The tokens in the automaton."""
    source: list[int] | None = None
    """The list they came from, as long as it is one sequence that only grows."""
    cursors: WeakKeyDictionary[SuffixAutomaton, _Cursor] = field(default_factory=WeakKeyDictionary)
    """Into past answers, until these are forgotten."""

    def read(self, token_ids: list[int]) -> None:
        """Take in what is new; start afresh when `token_ids` does not go on with what is known."""
        count = len(self.known)
        if token_ids is self.source:
            goes_on = count <= len(token_ids) and self.known[-1:] == token_ids[max(0, count - 1) : count]
        else:
            goes_on = self.known == token_ids[:count]
        if not goes_on:
            self.automaton, self.known, count = SuffixAutomaton(), [], 0
            self.cursors.clear()
        self.source = token_ids
        self.automaton.extend(token_ids[count:])
        self.known.extend(token_ids[count:])

    def longest_match(self, past: Sequence[SuffixAutomaton]) -> tuple[SuffixAutomaton, Place]:
        """Where the sequence has got to: in its own text, unless a past one agrees with it for longer."""
        others = [(each, self.cursors.setdefault(each, _Cursor()).read(each, self.known)) for each in past]
        own = self.automaton, self.automaton.repeated_tail
        return max(
            [own, *(each for each in others if each[1].length >= MIN_PAST_MATCH)], key=lambda each: each[1].length
        )


class SuffixDrafter:
    """Free but for a few microseconds per token: right where an answer repeats its prompt, itself or an earlier one."""

    name = "suffix"
    memory = ModelMemory()

    def __init__(self, past: PastOutputs | None = None) -> None:
        self._past = past
        self._running: dict[int, _Running] = {}

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """What is known of the slot is compared with the new sequence when that is read."""
        if slot_id in self._running:
            self._running[slot_id].source = None

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._running.setdefault(slot_id, _Running()).read(token_ids)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        return [self._propose(request) for request in requests]

    def close(self, slot_id: int) -> None:
        self._running.pop(slot_id, None)

    def shutdown(self) -> None:
        self._running.clear()

    def _propose(self, request: DraftRequest) -> Draft:
        running = self._running.setdefault(request.slot_id, _Running())
        running.read(request.token_ids)
        past = self._past.automata(request.partition) if self._past is not None else ()
        automaton, place = running.longest_match(past)
        if place.length < MIN_MATCH:
            return Draft([], "no match")
        step = automaton.step(place)
        if _confidence(step) < request.min_confidence:
            return Draft([], "not sure")
        matched = step.place.length - 1 if step is not None else 0
        proposals = _continue(automaton, step, min(request.max_tokens, LENGTH_FACTOR * matched))
        return Draft(proposals, "" if proposals else "not sure")


def _continue(automaton: SuffixAutomaton, step: Step | None, count: int) -> list[Proposal]:
    """From `step` on the likeliest tokens, one after the other."""
    proposals: list[Proposal] = []
    certainty = 1.0
    while step is not None and len(proposals) < count:
        confidence = _confidence(step)
        certainty *= confidence
        if certainty < MIN_CERTAINTY:
            break
        proposals.append(Proposal(step.token_id, confidence=confidence))
        step = automaton.step(step.place)
    return proposals


def _confidence(step: Step | None) -> float:
    """Share of this continuation among all, with one more of unknown kind that weighs the less the longer the match."""
    if step is None:
        return 0.0
    return step.times / (step.total + 1 / max(1, step.place.length - 1))
