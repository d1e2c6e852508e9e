from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.roster import Roster
from homespec.engine.sampling.sampler import Proposal
from homespec.errors import DecodeError
from homespec.status import DrafterStatus, DraftState, ModelMemory
from homespec.units import MIB


class FakeDrafter:
    name = "draft"
    memory = ModelMemory(weights_bytes=100 * MIB)

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.shut_down = 0

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._work()

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._work()

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        self._work()
        return [Draft([], "nothing") for _ in requests]

    def close(self, slot_id: int) -> None:
        self._work()

    def shutdown(self) -> None:
        self.shut_down += 1

    def _work(self) -> None:
        if self.error is not None:
            raise self.error


class Table:
    """A roster and what it asked for."""

    def __init__(self, mode: str = "auto", *, path: str | None = "d.gguf", quarantined: dict[str, str] | None = None):
        self.loads = 0
        self.said: list[str] = []
        self.roster = Roster(mode, draft_path=path, load=self._load, announce=self.said.append, quarantined=quarantined)

    def _load(self) -> None:
        self.loads += 1

    def status(self, name: str = "draft") -> DrafterStatus:
        return next(status for status in self.roster.statuses() if status.name == name)


def test_auto_takes_the_draft_model_as_soon_as_it_is_there_and_the_free_one_until_then() -> None:
    table = Table()
    assert table.loads == 1
    assert table.status().state is DraftState.LOADING
    assert table.roster.choose("auto").drafter is not None
    assert table.roster.active() == table.status("ngram")
    drafter = FakeDrafter()
    table.roster.loaded(drafter)
    assert table.roster.choose("auto").drafter is drafter
    assert "100.0 MiB" in table.status().reason
    assert table.roster.memory.weights_bytes == 100 * MIB


def test_without_a_path_the_reason_says_how_to_get_one() -> None:
    table = Table(path=None)
    assert table.loads == 0
    choice = table.roster.choose("draft")
    assert choice.drafter is None
    assert "--draft" in choice.reason


def test_switching_off_unloads_and_switching_on_loads_again() -> None:
    table = Table()
    drafter = FakeDrafter()
    table.roster.loaded(drafter)
    table.roster.set_mode("off")
    assert drafter.shut_down == 1
    assert table.status().state is DraftState.OFF
    assert table.roster.memory.total_bytes == 0
    for wanted in ("auto", "draft", "ngram"):
        assert table.roster.choose(wanted).drafter is None
    table.roster.set_mode("auto")
    assert table.loads == 2
    assert any("unloading" in line for line in table.said)


def test_a_model_that_arrives_after_it_was_switched_off_is_not_kept() -> None:
    table = Table()
    table.roster.set_mode("off")
    drafter = FakeDrafter()
    table.roster.loaded(drafter)
    assert drafter.shut_down == 1
    assert table.status().state is DraftState.OFF


def test_a_request_may_choose_among_what_is_there() -> None:
    table = Table()
    table.roster.loaded(FakeDrafter())
    assert table.roster.choose("off").drafter is None
    assert table.roster.choose("ngram").drafter is not None
    table.roster.set_mode("ngram")
    assert table.roster.choose("auto").drafter is table.roster.choose("ngram").drafter


@pytest.mark.parametrize("error", [DecodeError("llama_decode returned -3"), ZeroDivisionError("oops")])
def test_a_drafter_that_breaks_is_off_with_the_reason_wherever_it_breaks(error: Exception) -> None:
    touches: list[Callable[[Roster, FakeDrafter], object]] = [
        lambda roster, drafter: roster.begin(0, None, 0),
        lambda roster, drafter: roster.prefill("auto", 0, [1]),
        lambda roster, drafter: roster.propose(drafter, []),
        lambda roster, drafter: roster.close(0),
    ]
    for touch in touches:
        table = Table()
        drafter = FakeDrafter(error)
        table.roster.loaded(drafter)
        touch(table.roster, drafter)
        assert table.status().state is DraftState.OFF
        assert str(error) in table.status().reason
        assert drafter.shut_down == 1
        assert table.roster.choose("auto").drafter is not drafter


def test_a_broken_proposal_becomes_empty_drafts() -> None:
    table = Table()
    drafter = FakeDrafter(DecodeError("gone"))
    table.roster.loaded(drafter)
    request = DraftRequest(0, [1, 2], 3, lambda _logits, _ids: Proposal(0))
    [draft] = table.roster.propose(drafter, [request])
    assert (draft.token_ids, draft.reason) == ([], "drafter broke")


def test_a_quarantined_drafter_stays_off_until_it_is_named() -> None:
    table = Table(quarantined={"draft": "crashed"})
    assert table.loads == 0
    assert table.status().reason == "crashed"
    table.roster.set_mode("auto")
    assert table.loads == 0
    table.roster.set_mode("draft")
    assert table.loads == 1
