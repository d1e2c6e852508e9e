"""The checks of this folder see what they are there for: each fault put into the engine on purpose is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine import round as round_module
from homespec.engine.llama.context import Context
from homespec.engine.round import Round
from homespec.engine.sampling.chain import Candidates, Logits
from homespec.engine.sampling.coupled import CoupledSampler
from homespec.engine.sequence import Sequence as EngineSequence
from homespec.errors import HomespecError
from homespec.frames import Sampling
from tests.kits.engines import ask, running
from tests.kits.identity import plain_and_drafted, same_answer
from tests.kits.models import Models

pytestmark = pytest.mark.real

Mutant = Callable[[pytest.MonkeyPatch], None]


def holds(models: Models, memory: str = "random", **request: Any) -> bool:
    """Whether a drafted answer is the plain one, on a model where each token depends on all before it."""
    settings = {"wrong_every": 3, "max_tokens": 48, "ignore_eos": True, **request}
    try:
        plain, drafted = plain_and_drafted(getattr(models, memory), b"harness", **settings)
    except HomespecError:
        return False
    assert drafted.speculation.drafted > 0
    return same_answer(plain, drafted)


def accept_past_the_first_difference(patch: pytest.MonkeyPatch) -> None:
    def accept(draft: Sequence[int], choose: Callable[[int], int]) -> Iterator[tuple[int, bool]]:
        forgiven = False
        for row, drafted in enumerate(draft):
            token = choose(row)
            if token != drafted and forgiven:
                yield token, False
                return
            forgiven = forgiven or token != drafted
            yield drafted, True
        yield choose(len(draft)), False

    patch.setattr(round_module, "accept", accept)


def judge_with_the_next_row(patch: pytest.MonkeyPatch) -> None:
    logits = Context.logits

    def shifted(context: Context) -> NDArray[np.float32]:
        rows = logits(context)
        return rows if len(rows) == 1 else np.roll(rows, -1, axis=0)

    patch.setattr(Context, "logits", shifted)


def trim_by(offset: int) -> Mutant:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        trim = Context.trim
        patch.setattr(Context, "trim", lambda context, seq_id, n_past: trim(context, seq_id, n_past + offset))

    return mutate


def never_trim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "trim", lambda *_: None)


def drop_the_bonus_token(patch: pytest.MonkeyPatch) -> None:
    def accept(draft: Sequence[int], choose: Callable[[int], int]) -> Iterator[tuple[int, bool]]:
        for row, drafted in enumerate(draft):
            token = choose(row)
            yield token, token == drafted
            if token != drafted:
                return
        if not draft:
            yield choose(0), False
        else:
            yield choose(len(draft) - 1), False

    patch.setattr(round_module, "accept", accept)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(
    "mutant",
    [
        accept_past_the_first_difference,
        judge_with_the_next_row,
        trim_by(-1),
        trim_by(1),
        never_trim,
        drop_the_bonus_token,
    ],
)
def test_a_wrong_round_is_noticed(
    models: Models, monkeypatch: pytest.MonkeyPatch, mutant: Mutant, temperature: float
) -> None:
    wrong_every = 0 if mutant is drop_the_bonus_token else 3
    assert holds(models, temperature=temperature, wrong_every=wrong_every)
    mutant(monkeypatch)
    assert not holds(models, temperature=temperature, wrong_every=wrong_every)


def forget_to_restore(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "_restore", lambda *_: None)


def forget_to_replay(patch: pytest.MonkeyPatch) -> None:
    roll_back = Context.roll_back
    patch.setattr(Context, "roll_back", lambda context, seq_id, checkpoint, _: roll_back(context, seq_id, checkpoint))


def replay_the_rejected_row(patch: pytest.MonkeyPatch) -> None:
    roll_back = Context.roll_back

    def one_more(context: Context, seq_id: int, checkpoint: Any, kept: Sequence[int]) -> None:
        roll_back(context, seq_id, checkpoint, [*kept[:-1], (kept[-1] + 1) % 256])

    patch.setattr(Context, "roll_back", one_more)


@pytest.mark.parametrize("mutant", [forget_to_restore, forget_to_replay, replay_the_rejected_row])
def test_a_wrong_state_is_noticed(models: Models, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    assert holds(models, "recurrent")
    mutant(monkeypatch)
    assert not holds(models, "recurrent")


@pytest.mark.parametrize("mutant", [trim_by(-1), trim_by(1), never_trim])
def test_a_wrong_snapshot_is_noticed(models: Models, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    assert holds(models, "hybrid", limit=4)
    mutant(monkeypatch)
    assert not holds(models, "hybrid", limit=4)


def penalise_the_first_row_only(patch: pytest.MonkeyPatch) -> None:
    accept = Round._accept

    def remember_start(engine_round: Round, block: Any, *rest: Any) -> None:
        starts[block.sequence.id] = len(block.sequence.token_ids)
        accept(engine_round, block, *rest)

    def choose(sequence: EngineSequence, logits: Logits, proposal: Any = None) -> int:
        known = sequence.token_ids[: starts.get(sequence.id)]
        return sequence.sampler.choose(logits, known, None, proposal)

    starts: dict[str, int] = {}
    patch.setattr(Round, "_accept", remember_start)
    patch.setattr(EngineSequence, "choose", choose)


def test_penalties_that_miss_the_tokens_of_their_own_block_are_noticed(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same() -> bool:
        settings = {"repeat_penalty": 1.3, "presence_penalty": 1.0}
        return same_answer(*plain_and_drafted(models.looping, "abc", max_tokens=64, sampling=settings))

    assert same()
    penalise_the_first_row_only(monkeypatch)
    assert not same()


class CountingSampler(CoupledSampler):
    """Its noise moves on with every draw, a drafter's included, and not with the position."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._num_draws = 0

    def _draw(self, candidates: Candidates, position: int) -> int:
        self._num_draws += 1
        return super()._draw(candidates, self._num_draws)


def test_a_generator_that_drafts_move_on_is_noticed(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    def same() -> bool:
        with running(models.random, draft=models.other_random) as driver:
            request: dict[str, Any] = {"max_tokens": 30, "temperature": 0.9, "ignore_eos": True}
            plain, drafted = (driver.run(ask(b"harness", mode=mode, **request))[0] for mode in ("off", "draft"))
        return same_answer(plain, drafted)

    assert same()
    monkeypatch.setattr("homespec.engine.build.CoupledSampler", CountingSampler)
    assert not same()


def test_a_stop_that_is_only_obeyed_behind_its_block_is_noticed(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def same() -> bool:
        plain, drafted = plain_and_drafted(models.letters, "a", limit=12, then=b"jklmnop", max_tokens=40, stop=("j",))
        assert drafted.speculation.drafted > 0
        return same_answer(plain, drafted)

    assert same()
    keep = Round._keep
    monkeypatch.setattr(Round, "_keep", lambda *arguments, **named: keep(*arguments, **named) and False)
    assert not same()
