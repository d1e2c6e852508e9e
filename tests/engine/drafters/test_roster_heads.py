"""The drafter that comes of the draft file goes by the name of what the file holds."""

from __future__ import annotations

from typing import Any

from homespec.engine.drafters.roster import Roster
from homespec.status import DraftState
from tests.kits.drafters import ScriptedDrafter


class Head(ScriptedDrafter):
    name = "eagle3"

    def __init__(self) -> None:
        super().__init__(lambda _request: [])


def roster(**settings: Any) -> Roster:
    return Roster("auto", draft_path="h.gguf", draft_kind="eagle3", load=lambda: None, announce=print, **settings)


def state_of(table: Roster) -> DraftState:
    return next(status.state for status in table.statuses() if status.name == "eagle3")


def test_it_is_listed_and_chosen_by_its_name() -> None:
    table, head = roster(), Head()
    assert table.file_drafter == "eagle3"
    table.loaded(head)
    assert [status.name for status in table.statuses()] == ["suffix", "eagle3", "ngram", "grammar"]
    assert table.choose("eagle3").drafter is table.choose("auto").drafter is head
    table.set_mode("ngram")
    assert head.is_shut_down
    table.set_mode("eagle3")
    assert state_of(table) is DraftState.LOADING


def test_a_request_for_another_kind_goes_undrafted_and_is_told_why() -> None:
    choice = roster().choose("dflash")
    assert choice.drafter is None
    assert "no drafter 'dflash'" in choice.reason
    assert "eagle3" in choice.reason


def test_a_file_that_the_daemon_refused_stays_off_under_its_own_name() -> None:
    table = roster(quarantined={"draft": "cut short"})
    assert table.choose("eagle3").reason == "eagle3 is off: cut short"


def test_a_crash_of_a_drafter_that_is_no_more_is_forgotten() -> None:
    table = roster(quarantined={"mtp": "crashed"})
    assert state_of(table) is DraftState.LOADING
