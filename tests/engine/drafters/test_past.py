"""Past answers: bounded, apart, and on disk only when asked for."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.journal import Journal
from homespec.engine.drafters.past import PastOutputs
from homespec.engine.drafters.suffix_automaton import MAX_TOKEN_BYTES, ROOT

KIB = 1024


def knows(past: PastOutputs, partition: str, token_ids: list[int]) -> bool:
    for automaton in past.automata(partition):
        place = ROOT
        for token in token_ids:
            place = automaton.advance(place, token)
        if place.length == len(token_ids):
            return True
    return False


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 9), max_size=60)),
        max_size=30,
    )
)
def test_it_never_holds_more_than_its_limit_and_always_the_latest_answer(answers: list[tuple[str, list[int]]]) -> None:
    limit = 200 * KIB
    past = PastOutputs(limit)
    for partition, token_ids in answers:
        past.add(partition, token_ids)
        assert past.size_bytes <= limit
        assert knows(past, partition, token_ids) or not token_ids


def test_the_oldest_answers_go_first() -> None:
    past = PastOutputs(200 * KIB)
    for start in range(0, 5000, 100):
        past.add("", list(range(start, start + 100)))
    assert knows(past, "", list(range(4900, 5000)))
    assert not knows(past, "", list(range(100)))


def test_of_an_answer_that_could_never_fit_the_end_is_kept() -> None:
    limit = 100 * KIB
    past = PastOutputs(limit)
    past.add("", list(range(5000)))
    assert knows(past, "", list(range(4980, 5000)))
    assert past.size_bytes <= limit


@pytest.mark.parametrize("limit", [0, 1, 2 * MAX_TOKEN_BYTES])
def test_a_limit_too_small_for_anything_holds_nothing(limit: int) -> None:
    past = PastOutputs(limit)
    past.add("", [1, 2, 3])
    assert past.size_bytes == 0


class TestJournal:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "state" / "answers"

    def test_answers_survive_a_restart(self, path: Path) -> None:
        PastOutputs(KIB * KIB, Journal(path, "model")).add("key", [1, 2, 3])
        PastOutputs(KIB * KIB, Journal(path, "model")).add("key", [4, 5, 6])
        past = PastOutputs(KIB * KIB, Journal(path, "model"))
        assert knows(past, "key", [1, 2, 3])
        assert knows(past, "key", [4, 5, 6])
        assert not past.automata("other")

    def test_what_is_not_to_last_is_known_until_the_restart_only(self, path: Path) -> None:
        past = PastOutputs(KIB * KIB, Journal(path, "model"))
        past.add("bench", [1, 2, 3], lasting=False)
        assert knows(past, "bench", [1, 2, 3])
        assert not path.exists()
        past.add("key", [4, 5, 6])
        again = PastOutputs(KIB * KIB, Journal(path, "model"))
        assert knows(again, "key", [4, 5, 6])
        assert not again.automata("bench")

    def test_only_the_owner_may_read_them(self, path: Path) -> None:
        PastOutputs(KIB * KIB, Journal(path, "model")).add("", [1, 2, 3])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_another_model_starts_afresh(self, path: Path) -> None:
        PastOutputs(KIB * KIB, Journal(path, "model")).add("", [1, 2, 3])
        other = PastOutputs(KIB * KIB, Journal(path, "other"))
        assert not other.automata("")
        other.add("", [7, 8, 9])
        assert knows(PastOutputs(KIB * KIB, Journal(path, "other")), "", [7, 8, 9])
        assert not PastOutputs(KIB * KIB, Journal(path, "model")).automata("")

    @pytest.mark.parametrize("lost", range(1, 30, 4))
    def test_what_a_crash_has_half_written_is_cut_off(self, path: Path, lost: int) -> None:
        past = PastOutputs(KIB * KIB, Journal(path, "model"))
        past.add("", [1, 2, 3])
        whole = path.read_bytes()
        past.add("", [4, 5, 6, 7])
        path.write_bytes(path.read_bytes()[:-lost])
        again = PastOutputs(KIB * KIB, Journal(path, "model"))
        assert knows(again, "", [1, 2, 3]) is (path.stat().st_size >= len(whole))
        again.add("", [8, 9])
        assert knows(PastOutputs(KIB * KIB, Journal(path, "model")), "", [8, 9])

    @pytest.mark.parametrize("content", [b"hello" * 100, b"hello", b"\0\0\0\3abc", bytes(100)])
    @pytest.mark.parametrize("name", ["answers", "answers.old"])
    def test_a_file_of_something_else_is_left_alone(
        self, path: Path, name: str, content: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        path.parent.mkdir()
        path.with_name(name).write_bytes(content)
        past = PastOutputs(100 * KIB, Journal(path, "model"))
        for start in range(0, 5_000, 50):
            past.add("", list(range(start, start + 50)))
        assert knows(past, "", list(range(4_950, 5_000)))
        assert [(each.name, each.read_bytes()) for each in path.parent.iterdir()] == [(name, content)]
        assert "holds something else" in caplog.text

    def test_on_disk_there_is_no_more_than_in_memory(self, path: Path) -> None:
        past = PastOutputs(100 * KIB, Journal(path, "model"))
        for start in range(0, 20_000, 50):
            past.add("", list(range(start, start + 50)))
        assert sum(each.stat().st_size for each in path.parent.iterdir()) < 100 * KIB
        again = PastOutputs(100 * KIB, Journal(path, "model"))
        assert knows(again, "", list(range(19_950, 20_000)))

    def test_a_disk_that_cannot_be_written_is_no_fault(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "file").write_text("")
        past = PastOutputs(KIB * KIB, Journal(tmp_path / "file" / "answers", "model"))
        past.add("", [1, 2, 3])
        assert knows(past, "", [1, 2, 3])
        assert "not kept" in caplog.text
