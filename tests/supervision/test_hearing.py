"""What an engine says after it is ready reaches /status."""

from __future__ import annotations

from typing import Any

from homespec.frames import EngineSettings, Measured
from homespec.supervision.hearing import Hearing
from homespec.supervision.plan import Plan
from homespec.supervision.state import State
from tests.test_link import MODEL

NOBODY: Any = None


def test_threads_that_are_chosen_after_ready_are_those_of_the_model() -> None:
    state = State()
    hearing = Hearing(Plan(EngineSettings("m.gguf", "m")), state, NOBODY, NOBODY, NOBODY)
    state.model = MODEL
    hearing.receive(Measured("strict", "agrees"))
    assert state.model is MODEL
    hearing.receive(Measured("strict", "agrees", MODEL.threads + 3))
    assert state.model.threads == MODEL.threads + 3
    assert state.exactness == "strict"
    assert [event.text for event in state.events] == ["exactness strict: agrees"]  # the same is no news
