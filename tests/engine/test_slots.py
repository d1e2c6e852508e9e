from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from homespec.engine.slots import Slot, Slots, common_prefix_length

prompts = st.lists(st.integers(0, 2), min_size=1, max_size=6)


class FakeKv:
    """Remembers which tokens each sequence id holds."""

    def __init__(self, num_slots: int, window: int | None = None, *, can_share: bool = True) -> None:
        """can_share: as keys and values can; a running state belongs to one sequence and cannot be cut."""
        self.held: list[list[int]] = [[] for _ in range(num_slots)]
        self._window = window
        self.can_share = can_share

    def copy(self, source: int, destination: int, n_past: int) -> None:
        assert self.can_share
        assert source != destination
        assert not self.held[destination]
        self.held[destination] = self.held[source][:n_past]

    def trim(self, seq_id: int, n_past: int) -> None:
        del self.held[seq_id][n_past:]

    def clear(self, seq_id: int) -> None:
        self.held[seq_id] = []

    def save(self, seq_id: int) -> list[int]:
        return list(self.held[seq_id])

    def restore(self, seq_id: int, saved: list[int]) -> None:
        assert not self.held[seq_id]
        self.held[seq_id] = list(saved)

    def kv_length(self, seq_id: int) -> int:
        return len(self.held[seq_id])

    def can_trim(self, seq_id: int, n_past: int) -> bool:
        if not self.can_share:
            return n_past == len(self.held[seq_id])
        return self._window is None or n_past >= len(self.held[seq_id]) - self._window


class SlotMachine(RuleBasedStateMachine):
    """Requests come and go; what the bookkeeping says and what the cache holds must be the same all the time."""

    NUM_SLOTS = 3
    CAN_SHARE = True

    def __init__(self) -> None:
        super().__init__()
        self.kv = FakeKv(self.NUM_SLOTS, can_share=self.CAN_SHARE)
        self.cleared: list[int] = []
        self.slots = Slots(self.kv, self.NUM_SLOTS, on_clear=self.cleared.append)
        self.busy: dict[int, list[int]] = {}
        self.owner: dict[int, str] = {}

    def usable(self, slot: Slot, prompt: list[int]) -> int:
        """Tokens of the prompt that may be taken from a slot."""
        length = min(common_prefix_length(slot.token_ids, prompt), len(prompt) - 1)
        if self.CAN_SHARE:
            return length
        return length if slot.id not in self.busy and length == len(slot.token_ids) else 0

    @precondition(lambda self: len(self.busy) < self.NUM_SLOTS)
    @rule(prompt=prompts, partition=st.sampled_from(["a", "b"]))
    def acquire(self, prompt: list[int], partition: str) -> None:
        known = [self.usable(slot, prompt) for slot in self.slots.slots if slot.partition == partition]
        acquired = self.slots.acquire(prompt, partition, alone=not self.busy)
        assert acquired.slot.id not in self.busy
        assert acquired.num_cached_tokens == max(known, default=0)
        assert self.kv.held[acquired.slot.id] == prompt[: acquired.num_cached_tokens]
        if acquired.source_id is not None and acquired.source_id != acquired.slot.id:
            assert self.owner[acquired.source_id] == partition
        self.kv.held[acquired.slot.id] = list(prompt)
        self.busy[acquired.slot.id] = prompt
        self.owner[acquired.slot.id] = partition

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        slot_id = data.draw(st.sampled_from(sorted(self.busy)))
        self.slots.share(slot_id, list(self.busy[slot_id]))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), output=prompts)
    def release(self, data: st.DataObject, output: list[int]) -> None:
        slot_id = data.draw(st.sampled_from(sorted(self.busy)))
        tokens = self.busy.pop(slot_id) + output
        self.kv.held[slot_id] = list(tokens)
        self.slots.release(slot_id, list(tokens))

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        slot_id = data.draw(st.sampled_from(sorted(self.busy)))
        del self.busy[slot_id]
        self.slots.discard(slot_id)
        assert self.kv.held[slot_id] == []

    @precondition(lambda self: not self.busy)
    @rule()
    def repair(self) -> None:
        assert self.slots.repair() == []

    @rule()
    def evict(self) -> None:
        kept = [slot for slot in self.slots.slots if not slot.busy and slot.token_ids]
        assert self.slots.evict_idle() is bool(kept)
        if kept:
            oldest = min(kept, key=lambda slot: slot.last_used)
            assert self.kv.held[oldest.id] == []

    @invariant()
    def the_books_agree_with_the_cache(self) -> None:
        for slot in self.slots.slots:
            assert slot.busy is (slot.id in self.busy)
            held = self.kv.held[slot.id]
            assert slot.token_ids == (held if not slot.busy else held[: len(slot.token_ids)])


class StateMachine(SlotMachine):
    """The same over memories that cannot be cut or shared."""

    CAN_SHARE = False


TestSlots = SlotMachine.TestCase
TestSlotsOfStates = StateMachine.TestCase


def test_the_last_prompt_token_is_always_computed() -> None:
    slots = Slots(FakeKv(2), 2)
    first = slots.acquire([1, 2, 3], "")
    slots.release(first.slot.id, [1, 2, 3])
    assert slots.acquire([1, 2, 3], "").num_cached_tokens == 2


def test_partitions_share_nothing() -> None:
    slots = Slots(FakeKv(3), 3)
    first = slots.acquire([1, 2, 3], "one key")
    slots.release(first.slot.id, [1, 2, 3])
    assert slots.acquire([1, 2, 3], "another key").num_cached_tokens == 0


def test_empty_slots_are_used_before_kept_prefixes_are_given_up() -> None:
    slots = Slots(FakeKv(3), 3)
    for prompt in ([1, 1], [2, 2]):
        slots.release(slots.acquire(prompt, "").slot.id, prompt)
    third = slots.acquire([3, 3], "")
    assert sorted(slot.token_ids for slot in slots.slots if slot.id != third.slot.id) == [[1, 1], [2, 2]]


def test_with_a_single_slot_its_own_prefix_is_kept() -> None:
    kv = FakeKv(1)
    slots = Slots(kv, 1)
    first = slots.acquire([1, 2, 3], "")
    kv.held[0] = [1, 2, 3]
    slots.release(first.slot.id, [1, 2, 3])
    again = slots.acquire([1, 2, 9, 9], "")
    assert again.num_cached_tokens == 2
    assert kv.held[0] == [1, 2]


def test_a_prefix_that_a_sliding_window_has_forgotten_is_not_reused() -> None:
    kv = FakeKv(2, window=1)
    slots = Slots(kv, 2)
    first = slots.acquire([1, 2, 3, 4, 5], "")
    kv.held[first.slot.id] = [1, 2, 3, 4, 5]
    slots.release(first.slot.id, [1, 2, 3, 4, 5])
    assert slots.acquire([1, 2, 9], "").num_cached_tokens == 0


def test_when_the_cache_is_emptied_for_a_lone_request_whoever_follows_it_is_told() -> None:
    cleared: list[int] = []
    kv = FakeKv(4)
    slots = Slots(kv, 4, on_clear=cleared.append)
    for prompt in ([1, 2, 3], [4, 5], [6, 7]):
        acquired = slots.acquire(prompt, "")
        kv.held[acquired.slot.id] = prompt
        slots.release(acquired.slot.id, prompt)
    assert not slots.acquire([8], "", alone=True).emptied
    slots.release(3, [])
    slots.scatter()
    cleared.clear()
    acquired = slots.acquire([1, 2, 3, 9], "", alone=True)
    assert acquired.emptied
    assert (acquired.slot.id, acquired.source_id) == (3, 0)
    # The source is still needed: the drafters take their prefix from it first.
    assert cleared == [1, 2]


@given(prompts, prompts)
def test_common_prefix_of_short_lists(left: list[int], right: list[int]) -> None:
    expected = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    assert common_prefix_length(left, right) == expected


def test_common_prefix_across_blocks() -> None:
    base = list(range(1000))
    for length in (0, 255, 256, 257, 511, 512, 1000):
        assert common_prefix_length(base, base[:length]) == length
        assert common_prefix_length(base, [*base[:length], -1]) == length


def test_books_that_differ_from_the_cache_are_given_up_with_both_numbers() -> None:
    kv = FakeKv(2)
    slots = Slots(kv, 2)
    for prompt in ([1, 2, 3], [4, 5]):
        slot = slots.acquire(prompt, "").slot
        kv.held[slot.id] = list(prompt)
        slots.release(slot.id, prompt)
    kv.held[0].append(9)
    assert slots.repair() == ["slot 0 holds 4 tokens in the KV cache and 3 in the books"]
    assert kv.held == [[], [4, 5]]
    assert slots.repair() == []
    assert slots.acquire([1, 2, 3, 4], "").num_cached_tokens == 0
