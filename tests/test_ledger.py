"""Counters over the daemon's life, whatever becomes of its engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.ledger import WINDOW_S, Ledger
from homespec.stats import DraftStats
from homespec.status import DraftState, EngineCounters, EngineSnapshot, ModelMemory, SpeculationStatus


def snapshot(drafts: dict[str, DraftStats] | None = None, **counts: Any) -> EngineSnapshot:
    """What an engine that has counted this reports."""
    return EngineSnapshot(
        speculation=SpeculationStatus("auto", "ngram", DraftState.READY, "free", 4, (), drafts or {}),
        counters=EngineCounters(**counts),
        requests=(),
        target_memory=ModelMemory(),
        drafter_memory=ModelMemory(),
        kv_used_tokens=0,
        kv_total_tokens=512,
    )


def stats(num_drafts: int, drafted: int, accepted: int) -> DraftStats:
    return DraftStats(num_drafts, drafted, accepted, [accepted] if accepted else [])


class TestTotals:
    def test_nothing_at_first(self) -> None:
        ledger = Ledger()
        assert ledger.counters() == EngineCounters()
        assert ledger.drafts() == {}
        assert ledger.snapshot is None

    def test_they_are_those_of_the_engine(self) -> None:
        ledger = Ledger()
        ledger.observe(snapshot({"ngram": stats(2, 8, 5)}, rounds=3, output_tokens=8, skipped_drafts={"off": 1}), 0.0)
        assert ledger.counters() == EngineCounters(rounds=3, output_tokens=8, skipped_drafts={"off": 1})
        assert ledger.drafts() == {"ngram": stats(2, 8, 5)}

    def test_they_go_on_with_the_next_engine(self) -> None:
        ledger = Ledger()
        first = snapshot({"ngram": stats(2, 8, 5)}, rounds=3, prompt_tokens=20, skipped_drafts={"off": 1})
        second = snapshot({"ngram": stats(1, 4, 1), "draft": stats(1, 2, 2)}, rounds=1, skipped_drafts={"no match": 2})
        ledger.observe(first, 0.0)
        ledger.engine_gone()
        assert ledger.snapshot is None
        assert ledger.counters() == EngineCounters(rounds=3, prompt_tokens=20, skipped_drafts={"off": 1})
        ledger.observe(second, 1.0)
        assert ledger.counters() == EngineCounters(rounds=4, prompt_tokens=20, skipped_drafts={"off": 1, "no match": 2})
        assert ledger.drafts() == {"ngram": DraftStats(3, 12, 6, [6]), "draft": stats(1, 2, 2)}
        ledger.engine_gone()
        ledger.engine_gone()
        assert ledger.counters().rounds == 4

    def test_an_engine_that_comes_back_is_counted_once(self) -> None:
        ledger = Ledger()
        first = snapshot({"ngram": stats(2, 8, 5)}, rounds=3, output_tokens=8, skipped_drafts={"off": 1})
        other = snapshot({"suffix": stats(1, 4, 1)}, rounds=1, output_tokens=2, skipped_drafts={"no match": 2})
        later = snapshot({"ngram": stats(3, 10, 6)}, rounds=5, output_tokens=12, skipped_drafts={"off": 2})
        ledger.observe(first, 0.0)
        ledger.engine_gone()
        ledger.observe(other, 1.0)
        ledger.engine_gone()
        ledger.engine_back(first, 2.0)
        assert ledger.counters().output_tokens == 10
        ledger.observe(later, 3.0)
        assert ledger.counters() == EngineCounters(rounds=6, output_tokens=14, skipped_drafts={"no match": 2, "off": 2})
        assert ledger.drafts()["ngram"] == stats(3, 10, 6)
        assert ledger.drafts()["suffix"] == stats(1, 4, 1)

    def test_what_was_observed_is_not_changed(self) -> None:
        ledger = Ledger()
        first = snapshot({"ngram": stats(2, 8, 5)})
        ledger.observe(first, 0.0)
        ledger.engine_gone()
        ledger.observe(snapshot({"ngram": stats(1, 4, 1)}), 1.0)
        ledger.drafts()
        assert first.speculation.totals == {"ngram": stats(2, 8, 5)}

    @given(
        st.lists(
            st.one_of(
                st.none(),
                st.tuples(st.integers(0, 50), st.integers(0, 50), st.dictionaries(st.sampled_from("abc"), st.just(1))),
            )
        )
    )
    def test_they_never_go_back(self, story: list[tuple[int, int, dict[str, int]] | None]) -> None:
        """An engine works (grows its own counters) or dies (None)."""
        ledger = Ledger()
        engine = EngineCounters()
        before = ledger.counters()
        for now, step in enumerate(story):
            if step is None:
                ledger.engine_gone()
                engine = EngineCounters()
            else:
                rounds, tokens, skipped = step
                sums = {key: engine.skipped_drafts.get(key, 0) + skipped.get(key, 0) for key in "abc"}
                engine = replace(
                    engine,
                    rounds=engine.rounds + rounds,
                    output_tokens=engine.output_tokens + tokens,
                    verify_s=engine.verify_s + rounds / 64,
                    skipped_drafts={key: count for key, count in sums.items() if count},
                )
                ledger.observe(replace(snapshot(), counters=engine), float(now))
            after = ledger.counters()
            assert after.rounds >= before.rounds
            assert after.output_tokens >= before.output_tokens
            assert after.verify_s >= before.verify_s
            assert all(after.skipped_drafts.get(key, 0) >= count for key, count in before.skipped_drafts.items())
            before = after


class TestRates:
    def test_unknown_at_first(self) -> None:
        ledger = Ledger()
        assert ledger.throughput(0.0).tokens_per_second is None
        ledger.observe(snapshot(output_tokens=5), 0.0)
        assert ledger.throughput(0.0).tokens_per_second is None

    def test_tokens_per_second(self) -> None:
        ledger = Ledger()
        for second in range(3):
            ledger.observe(snapshot(output_tokens=10 * second, prompt_tokens=100 * second), float(second))
        rates = ledger.throughput(2.0)
        assert rates.tokens_per_second == pytest.approx(10)
        assert rates.prompt_tokens_per_second == pytest.approx(100)

    def test_they_forget(self) -> None:
        ledger = Ledger()
        for second in range(3):
            ledger.observe(snapshot(output_tokens=10 * second), float(second))
        for second in range(3, 12):
            ledger.observe(snapshot(output_tokens=20), float(second))
        assert ledger.throughput(11.0).tokens_per_second is None
        assert ledger.throughput(11.0 + 10 * WINDOW_S).tokens_per_second is None

    def test_a_window_of_samples_is_kept(self) -> None:
        ledger = Ledger()
        for step in range(1000):
            ledger.observe(snapshot(output_tokens=step), step / 5)
        assert ledger.throughput(999 / 5).tokens_per_second == pytest.approx(5)
        assert len(ledger._window) <= WINDOW_S * 5 + 2

    def test_they_do_not_jump_when_an_engine_dies(self) -> None:
        ledger = Ledger()
        ledger.observe(snapshot(output_tokens=10), 0.0)
        ledger.observe(snapshot(output_tokens=20), 1.0)
        ledger.engine_gone()
        ledger.observe(snapshot(output_tokens=0), 2.0)
        rate = ledger.throughput(2.0).tokens_per_second
        assert rate == pytest.approx(5)

    def test_acceptance(self) -> None:
        ledger = Ledger()
        ledger.observe(snapshot({"ngram": stats(1, 4, 4)}), 0.0)
        ledger.observe(snapshot({"ngram": stats(3, 12, 6)}, skipped_drafts={"no match": 2}), 1.0)
        rates = ledger.throughput(1.0)
        assert rates.acceptance_rate == pytest.approx(2 / 8)
        assert rates.draft_length == pytest.approx(8 / 2)
        # Two drafting passes and two plain ones kept two draft tokens.
        assert rates.acceptance_length == pytest.approx(1 + 2 / 4)


class TestDraftStats:
    def test_an_empty_draft_is_no_round(self) -> None:
        tally = DraftStats()
        tally.add_round(0, 0)
        assert tally == DraftStats()
        assert tally.acceptance_rate is None
        assert tally.acceptance_length is None
        assert tally.draft_length is None
        assert tally.acceptance_per_position == []

    def test_rounds(self) -> None:
        tally = DraftStats()
        tally.add_round(4, 3)
        tally.add_round(4, 1)
        tally.add_round(2, 0)
        assert tally.acceptance_rate == pytest.approx(4 / 10)
        assert tally.acceptance_length == pytest.approx(1 + 4 / 3)
        assert tally.num_accepted_per_position == [2, 1, 1]
        assert tally.acceptance_per_position == pytest.approx([2 / 3, 1 / 3, 1 / 3])

    @given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)).map(lambda pair: (max(pair), min(pair)))))
    def test_adding_and_taking_away(self, rounds: list[tuple[int, int]]) -> None:
        total, half = DraftStats(), DraftStats()
        for index, (drafted, accepted) in enumerate(rounds):
            total.add_round(drafted, accepted)
            if index % 2:
                half.add_round(drafted, accepted)
        assert sum(total.num_accepted_per_position) == total.num_accepted_tokens
        assert total.num_accepted_per_position == sorted(total.num_accepted_per_position, reverse=True)
        rest = total.copy()
        rest.add(half, sign=-1)
        rest.add(half)
        assert rest == total
