"""What a report says before its numbers are believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.bench.notes import MAX_NAMES
from homespec.bench.options import Options
from homespec.bench.reporter import make_report
from homespec.bench.runner import Run
from homespec.bench.sides import sides_of
from homespec.bench.trial import Failure, FailureKind, Trial
from homespec.status import DECODING_WITH, DraftState, Event, Status
from tests.kits.trials import drafted, report_of, trial, turn, two_sided
from tests.tui.snapshots import plain, speculating, squeezed

AGAINST = sides_of(["auto"], None, (), against=True)


def test_what_spoils_a_report_is_noted() -> None:
    trials = two_sided({"prose": [1.0] * 6})
    changed = [replace(each, turns=(replace(each.turns[0], text="other"),)) for each in trials if each.side == "auto"]
    idle = [replace(each, side="auto", turns=(replace(each.turns[0], reason="off"),)) for each in trials[::2]]
    assert any("6 of 6 answers" in note for note in report_of([*trials[::2], *changed]).notes)
    assert any("auto drafted nothing: off" in note for note in report_of([*trials[::2], *idle]).notes)
    assert report_of(trials).notes == ()


def test_a_plain_side_that_drafts_is_none() -> None:
    trials = [drafted(side, str(i), 50.0) for side in ("plain", "auto") for i in range(6)]
    assert any("plain was to draft nothing and drafted 480 tokens" in note for note in report_of(trials).notes)


def test_failures_are_counted_and_named_by_side_and_kind() -> None:
    refused = [Failure(f"q{i}", "other server", FailureKind.REFUSED, "too long") for i in range(MAX_NAMES + 2)]
    notes = report_of(
        two_sided({"prose": [1.0] * 6}), failures=[*refused, Failure("x", "auto", FailureKind.FAILED, "cut")]
    ).notes
    assert notes == (
        "12 prompts were refused by other server and are in none of its comparisons: "
        "q0, q1, q2, q3, q4, q5, q6, q7, q8, q9 and 2 more; the first: too long",
        "1 prompt failed on auto and is in none of its comparisons: x; cut",
    )


def beside(**fields: object) -> tuple[str, ...]:
    """The notes when another server answers six prompts like this, and ours as always."""
    ours = [
        replace(each, turns=(replace(each.turns[0], num_computed_prompt=100),))
        for each in two_sided({"prose": [1.0] * 6})
    ]
    answer = turn(**{"rounds": None, "num_computed_prompt": 100, **fields})  # type: ignore[arg-type]
    theirs = [Trial(f"prose-{i}", "prose", "other server", (answer,)) for i in range(6)]
    return report_of([*ours, *theirs], AGAINST).notes


def test_a_server_that_answers_alike_needs_no_note() -> None:
    assert beside() == ()


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ({"text": "other"}, ["6 of 6 answers of other server are not the text of plain: another file"]),
        ({"text": "short", "num_tokens": 70, "num_generated": 70}, ["all together they are 31% shorter"]),
        ({"text": "long", "num_tokens": 202, "num_generated": 202}, ["all together they are 100% longer"]),
        ({"num_generated": 300}, ["says that it generated 1800 tokens", "have 606"]),
        ({"num_computed_prompt": 5}, ["had 6 of 6 prompts in its cache already", "start other server anew"]),
        ({"num_computed_prompt": None}, ["does not say what it finds in its cache"]),
    ],
)
def test_what_makes_another_server_hard_to_compare(fields: dict[str, object], fragments: list[str]) -> None:
    [note] = beside(**fields)
    for fragment in fragments:
        assert fragment in note


@pytest.mark.parametrize("num_computed", [76, 150])
def test_a_template_that_one_server_kept_is_no_fault_of_the_other(num_computed: int) -> None:
    assert beside(num_computed_prompt=num_computed) == ()


def test_what_the_daemon_did_meanwhile() -> None:
    status = plain()
    run = Run(trials=[trial("plain", "q")], unsettled=["its exactness", "its costs"], first_status=status)
    run.num_answering.update({"plain": 3, "auto": 2, "other server": 7})
    counters = replace(status.counters, requests=status.counters.requests + 6)
    engine = replace(status.engine, restarts=status.engine.restarts + 1, last_exit="killed by signal 9")
    assert status.model is not None
    model = replace(status.model, id="another")
    run.last_status = replace(status, counters=counters, engine=engine, model=model)
    notes = make_report(Options(url="u"), "u", [], AGAINST, run, 0.0, notes=["of the file"]).notes
    assert notes[0] == "of the file"
    for fragment in (
        "measuring its exactness and its costs",
        "answered 1 request of others",
        "killed by signal 9",
        "to another",
    ):
        assert any(fragment in note for note in notes)


def told_of(first: Status, last: Status) -> tuple[str, ...]:
    run = Run(trials=[trial("plain", "q")], first_status=first, last_status=last)
    return make_report(Options(url="u"), "u", [], AGAINST, run, 0.0).notes


@pytest.mark.parametrize(
    ("events", "is_told"),
    [
        ([(-9.0, "1 of 2")], True),
        ([(-9.0, "1 of 2"), (-8.0, "2 of 2")], False),
        ([(-9.0, "2 of 2"), (3.0, "1 of 2"), (5.0, "2 of 2")], True),
        ([(3.0, "2 of 2")], True),
    ],
)
def test_other_work_on_the_machine_is_told(events: list[tuple[float, str]], is_told: bool) -> None:
    status = plain()
    told = [
        Event(status.time_unix + after, "engine", f"{DECODING_WITH} {threads} threads: other work takes 1.0 of 2 CPUs")
        for after, threads in events
    ]
    notes = told_of(status, replace(status, events=tuple(told)))
    assert any("the engine was decoding with" in note for note in notes) is is_told


def test_a_drafter_that_came_or_went_is_told() -> None:
    ready, dropped = speculating(), squeezed()
    assert ready.speculation is not None
    loaded = [replace(each, state=DraftState.READY) for each in ready.speculation.drafters]
    ready = replace(ready, speculation=replace(ready.speculation, drafters=tuple(loaded)))
    assert any("went meanwhile (dropped: 96.0 MiB free" in note for note in told_of(ready, dropped))
    assert any("came meanwhile" in note for note in told_of(dropped, ready))
    assert not any("meanwhile" in note for note in told_of(ready, ready))
    assert dropped.memory is not None
    assert dropped.memory.monitor is not None
    [transition] = dropped.memory.monitor.transitions
    before, after = (transition.time_unix - 1, transition.time_unix + 1)
    there_and_back = replace(ready, memory=dropped.memory)
    assert any("came or went" in note for note in told_of(replace(ready, time_unix=before), there_and_back))
    assert not any("came or went" in note for note in told_of(replace(ready, time_unix=after), there_and_back))


def test_a_sweep_of_auto_has_no_fixed_d() -> None:
    def notes(drafter: str) -> str:
        return " ".join(report_of([trial("plain", "q")], sides_of([drafter], None, (0, 1, 3), against=False)).notes)

    assert "is a ceiling" in notes("auto")
    assert "is a ceiling" not in notes("ngram")
