from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from homespec.engine.drafters.choice import Choice
from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.roster import SURE, Roster
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

    def __init__(
        self,
        mode: str = "auto",
        *,
        path: str | None = "d.gguf",
        quarantined: dict[str, str] | None = None,
        refused: dict[str, str] | None = None,
    ):
        self.loads = 0
        self.said: list[str] = []
        self.roster = Roster(
            mode,
            draft_path=path,
            load=self._load,
            announce=self.said.append,
            quarantined=quarantined,
            refused=refused,
        )

    def _load(self) -> None:
        self.loads += 1

    def status(self, name: str = "draft") -> DrafterStatus:
        return next(status for status in self.roster.statuses() if status.name == name)


def test_auto_takes_the_draft_model_as_soon_as_it_is_there_and_the_free_one_until_then() -> None:
    table = Table()
    assert table.loads == 1
    assert table.status().state is DraftState.LOADING
    assert table.roster.choose("auto").drafter is not None
    assert table.roster.active() == table.status("suffix")
    drafter = FakeDrafter()
    table.roster.loaded(drafter)
    assert table.roster.choose("auto").drafter is drafter
    assert "100.0 MiB" in table.status().reason
    assert table.roster.memory.weights_bytes == 100 * MIB


def names(choice: Choice) -> list[str]:
    return [candidate.drafter.name for candidate in choice.candidates]


def test_auto_asks_a_free_drafter_that_is_sure_then_the_model_else_prompt_lookup() -> None:
    table = Table()
    assert names(table.roster.choose("auto")) == ["suffix", "ngram"]
    table.roster.loaded(FakeDrafter())
    chain = table.roster.choose("auto")
    assert names(chain) == ["suffix", "draft"]
    assert [candidate.min_confidence for candidate in chain.candidates] == [SURE, 0.0]
    for name in ("suffix", "draft", "ngram"):
        assert [candidate.min_confidence for candidate in table.roster.choose(name).candidates] == [0.0]
        assert names(table.roster.choose(name)) == [name]


def test_an_unknown_drafter_is_no_fault_but_a_reason() -> None:
    choice = Table().roster.choose("warp")
    assert choice.drafter is None
    assert "'warp'" in choice.reason
    assert "suffix" in choice.reason


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


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_quarantined_free_drafter_comes_back_when_it_is_named(name: str) -> None:
    table = Table(path=None, quarantined={name: "crashed"})
    assert name not in names(table.roster.choose("auto"))
    assert table.roster.choose(name).reason == f"{name} is off: crashed"
    table.roster.set_mode("auto")
    assert table.status(name).state is DraftState.OFF
    table.roster.set_mode(name)
    assert table.status(name).state is DraftState.READY
    assert names(table.roster.choose("auto")) == [name]
    table.roster.set_mode("auto")
    assert name in names(table.roster.choose("auto"))


def test_a_free_drafter_that_broke_comes_back_when_it_is_named() -> None:
    table = Table()
    table.roster.failed("ngram", "broke: oops")
    assert table.roster.choose("ngram").drafter is None
    table.roster.set_mode("ngram")
    assert table.roster.choose("ngram").drafter is not None


def test_with_every_free_drafter_in_quarantine_and_no_model_there_is_none() -> None:
    table = Table(path=None, quarantined={"ngram": "crashed", "suffix": "crashed"})
    assert table.roster.choose("auto").reason == "no drafter is ready"


def test_a_withdrawn_drafter_is_unloaded_with_the_reason_and_comes_back_when_readmitted() -> None:
    table = Table()
    drafter = FakeDrafter()
    table.roster.loaded(drafter)
    table.roster.withdraw("withdrawn: 10 MiB free")
    assert drafter.shut_down == 1
    assert (table.status().state, table.status().reason) == (DraftState.OFF, "withdrawn: 10 MiB free")
    assert table.roster.choose("auto").drafter is not None  # the free one
    table.roster.set_mode("draft")
    assert (table.loads, table.status().state) == (1, DraftState.OFF)
    table.roster.readmit()
    assert (table.loads, table.status().state) == (2, DraftState.LOADING)


def test_a_withdrawal_while_it_loads_takes_effect_when_the_load_ends() -> None:
    for arrives in (True, False):
        table = Table()
        table.roster.withdraw("withdrawn: 10 MiB free")
        assert not table.roster.wants_draft
        assert table.status().state is DraftState.UNLOADING
        drafter = FakeDrafter()
        table.roster.loaded(drafter) if arrives else table.roster.given_up()
        assert drafter.shut_down == arrives
        assert (table.status().state, table.status().reason) == (DraftState.OFF, "withdrawn: 10 MiB free")


def test_there_is_never_more_than_one_load() -> None:
    table = Table()
    for _ in range(3):
        table.roster.withdraw("withdrawn")
        table.roster.readmit()
    assert (table.loads, table.status().state) == (1, DraftState.LOADING)
    table.roster.given_up()  # one of the withdrawals had reached the loader
    assert (table.loads, table.status().state) == (2, DraftState.LOADING)
    table.roster.loaded(FakeDrafter())
    assert table.status().state is DraftState.READY


def test_a_parked_drafter_gives_its_memory_back_until_it_is_asked_for() -> None:
    def parked() -> Table:
        table = Table()
        table.roster.loaded(drafter := FakeDrafter())
        assert table.roster.park("draft", "draft would cost 0.50 T(1) for 0.10 tokens")
        assert drafter.shut_down == 1
        assert (table.status().state, table.roster.memory.total_bytes) == (DraftState.OFF, 0)
        assert table.status().reason.startswith("parked: draft would cost 0.50 T(1) for 0.10 tokens; back when")
        assert names(table.roster.choose("auto")) == ["suffix", "ngram"]
        assert "parked" in table.roster.choose("draft").reason
        return table

    def squeeze(roster: Roster) -> None:
        roster.withdraw("withdrawn")
        roster.readmit()

    comes_back: list[Callable[[Roster], None]] = [
        lambda roster: roster.ask("draft"),
        lambda roster: roster.set_mode("auto"),
        lambda roster: roster.set_mode("draft"),
    ]
    for act in comes_back:
        table = parked()
        act(table.roster)
        assert (table.loads, table.status().state) == (2, DraftState.LOADING)
    stays: list[Callable[[Roster], None]] = [
        lambda roster: roster.ask("auto"),
        lambda roster: roster.ask("suffix"),
        lambda roster: roster.readmit(),
        squeeze,
    ]
    for act in stays:
        table = parked()
        act(table.roster)
        assert (table.loads, table.status().state) == (1, DraftState.OFF)


def test_only_a_draft_model_under_auto_is_parked() -> None:
    table = Table("draft")
    assert not table.roster.park("draft", "it loses")  # not there yet
    table.roster.loaded(FakeDrafter())
    assert not table.roster.park("draft", "it loses")
    assert not table.roster.park("suffix", "it loses")
    assert table.status().state is DraftState.READY


def test_memory_that_is_short_comes_before_a_request_that_asks() -> None:
    table = Table()
    table.roster.loaded(FakeDrafter())
    table.roster.park("draft", "it loses")
    table.roster.withdraw("withdrawn: 10 MiB free")
    table.roster.ask("draft")
    assert (table.loads, table.status().reason) == (1, "withdrawn: 10 MiB free")
    table.roster.readmit()
    assert table.loads == 2


def test_a_broken_drafter_stays_off_when_pressure_ends() -> None:
    table = Table()
    table.roster.failed("draft", "no such file")
    table.roster.withdraw("withdrawn")
    table.roster.readmit()
    assert (table.loads, table.status().reason) == (1, "no such file")
    table.roster.set_mode("auto")
    assert table.loads == 2


def test_nothing_is_loaded_while_it_is_switched_off() -> None:
    table = Table("off")
    table.roster.withdraw("withdrawn")
    table.roster.readmit()
    assert table.loads == 0
    assert "switched to 'off'" in table.status().reason


def test_a_quarantined_drafter_that_is_the_mode_stays_off_after_a_restart() -> None:
    table = Table("draft", quarantined={"draft": "crashed"})
    assert (table.loads, table.status().reason) == (0, "crashed")


def test_what_did_not_fit_is_loaded_once_it_does_and_not_when_it_is_asked_for() -> None:
    table = Table(refused={"draft": "does not fit: 9 GiB needed"})
    assert (table.loads, table.status().reason) == (0, "does not fit: 9 GiB needed")
    table.roster.set_mode("draft")
    table.roster.set_mode("off")
    table.roster.admit()
    assert (table.loads, table.status().state) == (0, DraftState.OFF)  # the switch does not want it
    table.roster.set_mode("auto")
    assert (table.loads, table.status().state) == (1, DraftState.LOADING)


def test_what_fits_by_now_is_loaded_at_once() -> None:
    table = Table(refused={"draft": "does not fit"})
    table.roster.admit()
    assert table.loads == 1
