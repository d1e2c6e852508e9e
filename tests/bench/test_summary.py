from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from homespec.bench.sides import sides_of
from homespec.bench.summary import summarise
from homespec.bench.trial import Trial
from homespec.bench.verdict import Verdict
from homespec.errors import ExitCode
from homespec.stats import DraftStats
from tests.kits.trials import drafted, report_of, trial, turn, two_sided

SIDES = sides_of(["auto"], None, (), against=False)


def test_what_drafting_did_is_counted_over_all_answers() -> None:
    overall, _ = summarise(two_sided({"prose": [1.5] * 3, "copy": [2.0] * 3}), SIDES)
    result = overall.sides["auto"]
    assert result.num_answers == 6
    assert (result.drafted, result.accepted, result.rounds) == (480, 360, 240)
    assert result.acceptance_rate == 0.75
    assert result.acceptance_length == 1 + 360 / 240
    assert result.acceptance_per_position == [1.0, 0.5]
    # 1 row for the prompt, 40 for the rounds and 80 for the drafts of 101 tokens.
    assert result.rows_per_token == pytest.approx(121 / 101)
    assert result.draft_ms_per_round == pytest.approx(0.2)
    assert result.verify_ms_per_round == pytest.approx(10.0)
    assert result.drafters == {"ngram": 240}
    assert result.peak_rss_bytes == 2000


def test_rounds_without_a_draft_count_for_the_acceptance_length() -> None:
    """A drafter that is right now and then is not as good as one that is right all the time."""
    one = turn(rounds=80, stats=DraftStats(10, 20, 20, [10, 10]))
    overall, _ = summarise([trial("plain", "q"), Trial("q", "prose", "auto", (one,))], SIDES)
    assert overall.sides["auto"].acceptance_length == 1 + 20 / 80
    assert overall.sides["auto"].acceptance_per_position == [1.0, 1.0]


def test_of_memory_the_most_is_told() -> None:
    trials = [replace(trial("plain", f"q{size}"), engine_rss_bytes=size) for size in (3000, 9000, 1000)]
    overall, _ = summarise(trials, SIDES)
    assert overall.sides["plain"].peak_rss_bytes == 9000


def test_answers_of_other_lengths_are_compared_too_and_are_not_the_same() -> None:
    """A second turn that differs makes another answer."""
    plain = [replace(trial("plain", f"q{i}"), turns=(turn(), turn())) for i in range(5)]
    longer = turn(100.0, text="other", num_tokens=201, decode_s=2.0)
    auto = [Trial(f"q{i}", "prose", "auto", (turn(100.0), longer)) for i in range(5)]
    compared = summarise([*plain, *auto], SIDES)[0].comparison("auto")
    assert compared is not None
    assert (compared.num_pairs, compared.num_untimed, compared.num_identical) == (5, 0, 0)
    assert compared.ratio == pytest.approx(2.0)
    assert compared.length_ratio == pytest.approx(302 / 202)


def test_categories_have_wider_intervals_than_all_of_them_together_would_need() -> None:
    ratios = [0.9, 1.0, 1.1, 1.2, 1.0, 0.95]
    overall, categories = summarise(two_sided({"edit": ratios, "prose": ratios}), SIDES)
    assert [group.comparisons[0].level for group in (overall, *categories)] == [0.95, 0.975, 0.975]


def test_plain_answers_take_one_row_per_token_and_say_nothing_of_drafts() -> None:
    overall, _ = summarise(two_sided({"prose": [1.5] * 3}), SIDES)
    plain = overall.sides["plain"]
    assert plain.rows_per_token == 1.0
    assert plain.acceptance_length == 1.0
    assert plain.acceptance_rate is None
    assert plain.draft_ms_per_round is None
    assert plain.acceptance_per_position == []


def test_ratios_are_geometric_means_of_pairs() -> None:
    overall, (prose,) = summarise(two_sided({"prose": [0.5, 2.0, 1.0, 0.5, 2.0]}), SIDES)
    compared = overall.comparison("auto")
    assert compared is not None
    assert compared.ratio == pytest.approx(1.0)
    assert compared.worst == pytest.approx(0.5)
    assert compared.num_pairs == compared.num_identical == 5
    assert compared.verdict is Verdict.CANNOT_TELL
    assert compared.first_token_ratio == pytest.approx(1.0)
    assert prose.comparison("auto") == compared


def test_a_prompt_that_one_side_lacks_counts_for_none() -> None:
    trials = two_sided({"prose": [1.5] * 5})
    overall, _ = summarise([*trials, trial("plain", "lonely", 5000.0)], SIDES)
    compared = overall.comparison("auto")
    assert compared is not None
    assert compared.num_pairs == 5
    assert compared.ratio == pytest.approx(1.5)


def test_an_answer_of_a_few_tokens_has_no_speed() -> None:
    short = replace(trial("auto", "q"), turns=(turn(num_tokens=8),))
    overall, _ = summarise([trial("plain", "q"), short], SIDES)
    compared = overall.comparison("auto")
    assert compared is not None
    assert (compared.num_pairs, compared.num_untimed, compared.ratio) == (1, 1, None)
    assert compared.verdict is Verdict.TOO_FEW
    assert overall.sides["auto"].tokens_per_second is None


def test_an_empty_answer_is_no_fault() -> None:
    empty = replace(
        trial("auto", "q"),
        turns=(turn(num_tokens=0, num_generated=0, time_to_first_token_s=None, decode_s=0.0, text=""),),
    )
    overall, _ = summarise([trial("plain", "q"), empty], SIDES)
    compared = overall.comparison("auto")
    assert compared is not None
    assert compared.first_token_ratio is None
    assert compared.num_identical == 0
    assert overall.sides["auto"].rows_per_token is None


def test_sides_are_described_over_the_prompts_that_all_of_them_answered() -> None:
    """A side that refuses the slow prompts would look fast in its own column."""
    trials = two_sided({"prose": [1.0] * 5})
    overall, _ = summarise([*trials, trial("plain", "slow", 5.0), trial("plain", "slower", 1.0)], SIDES)
    plain, auto = overall.sides["plain"], overall.sides["auto"]
    assert plain.num_answers == auto.num_answers == 5
    assert plain.tokens_per_second == auto.tokens_per_second


def test_the_clock_starts_after_all_that_came_first() -> None:
    """A server that holds back its first tokens until it has some would get them for nothing."""
    assert turn(50.0, num_first_tokens=51).num_timed_tokens == 50
    assert turn(50.0, num_first_tokens=0).num_timed_tokens == 100
    assert turn(50.0, num_tokens=3, num_first_tokens=3).num_timed_tokens == 0


def of_prompt(side: str, question_id: str, computed: int | None, first_s: float, **fields: Any) -> Trial:
    one = turn(time_to_first_token_s=first_s, num_computed_prompt=computed, **fields)
    return Trial(question_id, "prose", side, (one,))


@pytest.mark.parametrize(
    ("computed", "again", "counts"),
    [(100, False, True), (92, False, True), (None, False, True), (10, False, False), (100, True, False)],
)
def test_a_prompt_in_the_cache_of_one_side_tells_nothing_of_first_tokens(
    computed: int | None, again: bool, counts: bool
) -> None:
    trials = [of_prompt("plain", "a", 100, 0.2), of_prompt("auto", "a", 100, 0.2), of_prompt("plain", "b", 100, 0.2)]
    trials.append(of_prompt("auto", "b", computed, 0.05, asked_again=again))
    compared = summarise(trials, SIDES)[0].comparison("auto")
    assert compared is not None
    assert compared.num_first_tokens == 1 + counts
    assert compared.first_token_ratio == pytest.approx(2.0 if counts else 1.0)


def test_turns_are_measured_together_and_the_first_token_by_the_first() -> None:
    two = Trial("q", "prose", "plain", (turn(50.0), turn(100.0, time_to_first_token_s=9.0)))
    assert two.tokens_per_second == pytest.approx(200 / 3)
    assert two.time_to_first_token_s == 0.1
    assert two.rounds == 200


def test_a_time_that_one_turn_lacks_is_unknown() -> None:
    assert Trial("q", "p", "plain", (turn(draft_ms=1.0), turn())).draft_ms is None
    assert Trial("q", "p", "plain", (turn(draft_ms=1.0), turn(draft_ms=2.0))).draft_ms == 3.0


def test_another_server_is_compared_with_every_side_of_ours() -> None:
    sides = sides_of(["auto"], None, (), against=True)
    other = [replace(trial("other server", f"prose-{i}", 25.0), turns=(turn(25.0, rounds=None),)) for i in range(6)]
    overall, _ = summarise([*two_sided({"prose": [2.0] * 6}), *other], sides)
    ratios = {(each.side, each.baseline): each.ratio for each in overall.comparisons}
    assert ratios == {
        ("auto", "plain"): pytest.approx(2.0),
        ("plain", "other server"): pytest.approx(2.0),
        ("auto", "other server"): pytest.approx(4.0),
    }
    assert overall.sides["other server"].rounds is None
    assert overall.sides["other server"].rows_per_token is None


STEADY = [1.0] * 8


@pytest.mark.parametrize(
    ("ratios", "code"),
    [
        ({"prose": STEADY, "copy": [2.0] * 8}, ExitCode.OK),
        ({"prose": [0.8] * 8, "copy": [2.0] * 8}, ExitCode.SLOWER),
        ({"prose": [0.8] * 3}, ExitCode.OK),
    ],
)
def test_one_slower_category_is_enough_for_the_exit_code(ratios: dict[str, list[float]], code: ExitCode) -> None:
    assert report_of(two_sided(ratios)).exit_code == code


def test_a_sweep_is_told_and_not_judged() -> None:
    sides = sides_of(["auto"], None, (0, 2), against=False)
    trials = [trial("plain", str(i)) for i in range(8)] + [drafted("auto D=2", str(i), 10.0) for i in range(8)]
    report = report_of(trials, sides)
    compared = report.overall.comparison("auto D=2")
    assert compared is not None
    assert compared.verdict is Verdict.SLOWER
    assert report.exit_code == ExitCode.OK


@pytest.mark.parametrize(
    ("speeds", "best"), [((60.0, 70.0), "ngram D=4"), ((60.0, 50.0), "ngram D=2"), ((40.0, 45.0), "plain")]
)
def test_auto_is_compared_with_the_best_fixed_setting_of_each_category(speeds: tuple[float, float], best: str) -> None:
    sides = sides_of(["ngram"], None, (2, 4), against=False)
    speed_of = dict(zip(("ngram D=2", "ngram D=4", "auto", "plain"), (*speeds, 56.0, 50.0), strict=True))
    trials = [drafted(side, str(i), speed, "copy") for side, speed in speed_of.items() for i in range(6)]
    overall, (copy,) = summarise(trials, sides)
    for group in (overall, copy):
        assert group.hindsight is not None
        assert (group.hindsight.side, group.hindsight.baseline) == ("auto", best)
        assert group.hindsight.ratio == pytest.approx(56.0 / speed_of[best])
        assert group.told[-1] == group.hindsight


def test_without_a_sweep_there_is_no_hindsight() -> None:
    overall, _ = summarise(two_sided({"prose": [1.5] * 5}), SIDES)
    assert overall.hindsight is None
    assert overall.told == overall.comparisons
