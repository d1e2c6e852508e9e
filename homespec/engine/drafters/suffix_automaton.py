"""A suffix automaton that grows token by token and knows how often each of its strings has occurred.

Blumer et al. 1985: every substring of the text is a path from the root; a state stands for substrings that end in the
same places, and its suffix link leads to the longest suffix that ends in more places. So the link of the last state is
the longest tail of the text that has occurred before, without any search.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple

_ROOT = 0
_NONE = -1

MAX_COUNTED = 16
"""Tails whose counts a new token updates, longest first: exact counts of all would cost a walk to the root per token,
which is as long as the text where it repeats itself."""

MAX_WAYS = 32
"""A place that has gone on in more ways than this is no guide; looking at all of them would take long."""

MAX_TOKEN_BYTES = 700
"""Most that one more token can add: two states, two forks and their branches."""

OWN_BYTES = 1200
"""What one takes that holds nothing, with the entry of a dict that leads to it."""
_STATE_BYTES = 32
"""Six numbers of four bytes, and what the arrays hold in reserve."""
_FORK_BYTES = 240
"""A dict of up to five entries."""
_BRANCH_BYTES = 110
"""An entry of a larger dict with the two numbers it points to."""


class Place(NamedTuple):
    """A substring of the text: the state that it leads to and its length."""

    state: int
    length: int


ROOT = Place(_ROOT, 0)
"""The empty string."""


class Step(NamedTuple):
    """One way on from a place."""

    token_id: int
    times: int
    """How often it has followed."""
    total: int
    """How often anything has."""
    place: Place


class SuffixAutomaton:
    """All substrings of one text of at most 2³¹ tokens. Growing costs O(1) amortised per token.

    A negative token ends one text and begins another: it is never a way on.

    Most states have one way on, which is kept in two numbers; only a fork has a dict.
    """

    def __init__(self, token_ids: Iterable[int] = ()) -> None:
        self._length = array("i", [0])
        self._link = array("i", [_NONE])
        self._count = array("i", [0])
        self._latest = array("i", [0])
        self._token = array("i", [_NONE])
        self._next = array("i", [_NONE])
        self._forks: dict[int, dict[int, int]] = {}
        """All ways on of a state that has more than one, in the order in which they were first taken."""
        self._num_branches = 0
        self._last = _ROOT
        self.num_tokens = 0
        self.extend(token_ids)

    @property
    def size_bytes(self) -> int:
        """An upper estimate of the memory held."""
        states = OWN_BYTES + len(self._length) * _STATE_BYTES
        return states + len(self._forks) * _FORK_BYTES + self._num_branches * _BRANCH_BYTES

    @property
    def repeated_tail(self) -> Place:
        """The longest tail of the text that has occurred before its end."""
        state = max(self._link[self._last], _ROOT)
        return Place(state, self._length[state])

    def extend(self, token_ids: Iterable[int]) -> None:
        for token_id in token_ids:
            self._append(token_id)

    def advance(self, place: Place, token_id: int) -> Place:
        """The longest tail of `place` and then `token_id` that occurs in the text."""
        state, length = self._at(place)
        while True:
            following = self._follow(state, token_id)
            if following != _NONE:
                return Place(following, length + 1)
            if state == _ROOT:
                return ROOT
            state = self._link[state]
            length = self._length[state]

    def step(self, place: Place) -> Step | None:
        """The likeliest token after `place`: the most frequent, of equals the one taken last.

        Where the text ends, the longest tail that goes on decides. None when nothing is known but the empty string, or
        too much.
        """
        state, length = self._at(place)
        while self._next[state] == _NONE or (self._token[state] < 0 and state not in self._forks):
            if state == _ROOT:
                return None
            state = self._link[state]
            length = self._length[state]
        if state == _ROOT:
            return None
        fork = self._forks.get(state)
        if fork is None:
            following = self._next[state]
            count = self._count[following]
            return Step(self._token[state], count, count, Place(following, length + 1))
        if len(fork) > MAX_WAYS:
            return None
        token_id, following, total = self._likeliest(fork)
        return Step(token_id, self._count[following], total, Place(following, length + 1))

    def _likeliest(self, fork: dict[int, int]) -> tuple[int, int, int]:
        """The token, its state, and how often the place went on at all."""
        counts, latest = self._count, self._latest
        best = (_NONE, _NONE)
        best_count = total = 0
        for token_id, following in fork.items():
            if token_id < 0:
                continue
            count = counts[following]
            total += count
            if count > best_count or (count == best_count and latest[following] > latest[best[1]]):
                best, best_count = (token_id, following), count
        return (*best, total)

    def _at(self, place: Place) -> tuple[int, int]:
        """A state may have been split since the place was taken: the shorter strings have moved along its link."""
        state, length = place.state, place.length
        while state != _ROOT and length <= self._length[self._link[state]]:
            state = self._link[state]
        return state, length

    def _follow(self, state: int, token_id: int) -> int:
        if self._token[state] == token_id:
            return self._next[state]
        fork = self._forks.get(state)
        return _NONE if fork is None else fork.get(token_id, _NONE)

    def _append(self, token_id: int) -> None:
        self.num_tokens += 1
        token, following, link = self._token, self._next, self._link
        current = self._new_state(self.num_tokens)
        state = self._last
        # Tails that have never gone on with this token; most have never gone on at all.
        while state != _NONE:
            if following[state] == _NONE:
                token[state], following[state] = token_id, current
            elif self._follow(state, token_id) == _NONE:
                self._lead(state, token_id, current)
            else:
                break
            state = link[state]
        link[current] = _ROOT if state == _NONE else self._suffix(state, token_id)
        self._last = current
        self._count_tails(current)

    def _suffix(self, state: int, token_id: int) -> int:
        """The state of exactly the longest string of `state` and then `token_id`; split off where there is none."""
        following = self._follow(state, token_id)
        if self._length[state] + 1 == self._length[following]:
            return following
        clone = self._new_state(self._length[state] + 1)
        for values in (self._link, self._count, self._latest, self._token, self._next):
            values[clone] = values[following]
        if (fork := self._forks.get(following)) is not None:
            self._forks[clone] = dict(fork)
            self._num_branches += len(fork)
        self._link[following] = clone
        while state != _NONE and self._follow(state, token_id) == following:
            self._lead(state, token_id, clone)
            state = self._link[state]
        return clone

    def _lead(self, state: int, token_id: int, following: int) -> None:
        """Let `token_id` lead from one state to another."""
        known = self._token[state]
        if self._next[state] == _NONE or known == token_id:
            self._token[state], self._next[state] = token_id, following
        elif state not in self._forks:
            self._forks[state] = {known: self._next[state]}
            self._num_branches += 1
        if (fork := self._forks.get(state)) is not None:
            self._num_branches += token_id not in fork
            fork[token_id] = following

    def _count_tails(self, state: int) -> None:
        count, latest, link, position = self._count, self._latest, self._link, self.num_tokens
        for _ in range(MAX_COUNTED):
            if state <= _ROOT:
                return
            count[state] += 1
            latest[state] = position
            state = link[state]

    def _new_state(self, length: int) -> int:
        self._length.append(length)
        self._link.append(_NONE)
        self._count.append(0)
        self._latest.append(0)
        self._token.append(_NONE)
        self._next.append(_NONE)
        return len(self._length) - 1
