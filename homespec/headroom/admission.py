"""Which drafter gets in beside a target whose plan is settled. Pure, like the gate: a search that asks for sizes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from homespec.footprint import HOST, Footprint
from homespec.headroom.budget import Budget
from homespec.headroom.choice import TargetPlan
from homespec.headroom.expectation import expected, rho
from homespec.headroom.gate import SMALL_KV_TYPE
from homespec.units import format_bytes

_NOTHING = "max_draft_tokens is 0: nothing is drafted"
WINDOW_CTX = 2048
"""Context of a drafter that gets no more: it drafts until a conversation is this long."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A draft model that was named."""

    path: str
    unusable: str | None = None
    """Why it cannot draft for this target, whatever the memory; None when it can."""
    follows_target: bool = False
    """It reads the target's hidden states, so its context is as long as the target's."""
    is_in_target: bool = False
    """A block of the target's own file, so it lies where the target does."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """One way to load a draft model."""

    path: str
    n_ctx: int | None
    """None: the target's context."""
    kv_type: str | None
    """None: the target's."""
    n_gpu_layers: int

    @property
    def is_whole(self) -> bool:
        return self.n_ctx is None

    def __str__(self) -> str:
        where = "on the CPU" if self.n_gpu_layers == 0 else "on the device"
        return f"in full {where}" if self.is_whole else f"{where} with {self.n_ctx} tokens of context"


@dataclass(frozen=True, slots=True)
class DraftVerdict:
    """What became of one candidate."""

    path: str | None
    """None: the drafters that take no memory."""
    choice: DraftChoice | None
    """How it would be loaded; None when it is out."""
    footprint: Footprint | None
    expected_speedup: float | None
    """Before anything was measured; see `expectation`."""
    is_admitted: bool
    reason: str
    rho: float | None = None
    """Cost of a draft token ÷ cost of a target pass, by bytes read."""
    num_draft_tokens: int | None = None
    """D that the expectation is for."""
    sizes: tuple[Footprint, ...] = ()
    """What each way that was tried would take."""
    is_in_target: bool = False
    """A block of the target's own file."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on every candidate, in the order in which they were named, the free drafters last."""

    verdicts: tuple[DraftVerdict, ...]

    @property
    def admitted(self) -> DraftVerdict | None:
        """The model drafter that gets in."""
        return next((verdict for verdict in self.verdicts if verdict.is_admitted and verdict.choice), None)


def nothing_to_draft(paths: Sequence[str]) -> Admission:
    """Beside a model that makes embeddings: everything that was named is out, and there are no free drafters."""
    reason = "the model embeds texts and generates none: nothing is drafted"
    return Admission(tuple(DraftVerdict(path, None, None, None, False, reason) for path in paths))


DraftSearch = Generator[DraftChoice, Footprint | str, Admission]
"""Yields a way to load, is sent its size or why it has none, returns the verdicts."""


def admit(
    candidates: Sequence[Candidate], target: TargetPlan, budget: Budget, *, max_draft_tokens: int, can_quantize_kv: bool
) -> DraftSearch:
    """The candidate with the best expected gain that fits in what the target leaves; the first of equals."""
    verdicts = []
    for candidate in candidates:
        if unusable := candidate.unusable or (_NOTHING if max_draft_tokens == 0 else None):
            verdicts.append(DraftVerdict(candidate.path, None, None, None, False, unusable))
            continue
        ways = tuple(_ways(candidate, target, budget, can_quantize_kv=can_quantize_kv))
        verdict = yield from _best_way(ways, target, budget, max_draft_tokens)
        verdicts.append(replace(verdict, is_in_target=candidate.is_in_target))
    fitting = [verdict for verdict in verdicts if verdict.choice is not None]
    best = max(fitting, key=lambda verdict: verdict.expected_speedup or 0.0, default=None)
    return Admission((*(_settle(verdict, best) for verdict in verdicts), _free(max_draft_tokens)))


def _ways(candidate: Candidate, target: TargetPlan, budget: Budget, *, can_quantize_kv: bool) -> Iterator[DraftChoice]:
    """In the order of preference: in full where the target is, bounded there, then the same on the CPU."""
    places = [-1, 0] if budget.devices and target.choice.n_gpu_layers != 0 else [0]
    small = SMALL_KV_TYPE if can_quantize_kv else None
    for n_gpu_layers in places[:1] if candidate.is_in_target else places:
        yield DraftChoice(candidate.path, None, None, n_gpu_layers)
        if target.footprint.n_ctx > WINDOW_CTX and not candidate.follows_target:
            yield DraftChoice(candidate.path, WINDOW_CTX, small, n_gpu_layers)


def _best_way(
    ways: Sequence[DraftChoice], target: TargetPlan, budget: Budget, max_draft_tokens: int
) -> Generator[DraftChoice, Footprint | str, DraftVerdict]:
    best: DraftVerdict | None = None
    failures: list[str] = []
    sizes: list[Footprint] = []
    for way in ways:
        footprint = yield way
        if isinstance(footprint, str):
            failures.append(footprint)
            continue
        sizes.append(footprint)
        shortage = budget.shortage(target.footprint, footprint)
        if shortage is not None:
            failures.append(f"{way}: {_short(budget, target, footprint)}")
            continue
        verdict = _fitting(way, footprint, target, max_draft_tokens)
        if way is ways[0]:
            return verdict  # no other way drafts more or costs less
        if best is None or (verdict.expected_speedup or 0.0) > (best.expected_speedup or 0.0):
            best = verdict
    if best is not None:
        return replace(best, reason="; ".join([best.reason, *(f"not {failure}" for failure in failures)]))
    first = sizes[0] if sizes else None
    reason = f"does not fit: {'; '.join(dict.fromkeys(failures))}"
    return DraftVerdict(ways[0].path, None, first, None, False, reason, sizes=tuple(sizes))


def _fitting(way: DraftChoice, footprint: Footprint, target: TargetPlan, max_draft_tokens: int) -> DraftVerdict:
    on_host = way.n_gpu_layers == 0
    cost = rho(
        sum(shares.weights_bytes for shares in footprint.devices.values()),
        sum(shares.weights_bytes for shares in target.footprint.devices.values()),
        draft_on_host=on_host,
        target_on_device=target.footprint.on(HOST).total_bytes < target.footprint.total_bytes / 2,
    )
    gain = expected(cost, max_draft_tokens)
    # A bounded drafter drafts only while a conversation is short; conversations of any length are held equally likely.
    share = min(1.0, footprint.n_ctx / target.footprint.n_ctx)
    speedup = 1 + (gain.speedup - 1) * share
    reason = f"fits {way}: {format_bytes(footprint.total_bytes)}"
    if gain.num_draft_tokens == 0:
        reason += f", but is not expected to pay: a draft token costs {cost:.2f} target passes"
    return DraftVerdict(way.path, way, footprint, speedup, True, reason, cost, gain.num_draft_tokens)


def _short(budget: Budget, target: TargetPlan, footprint: Footprint) -> str:
    """Numbers of the first pool that is too small for the drafter."""
    needs = budget.required(footprint)
    for pool, left in budget.headroom_after(target.footprint).items():
        if left is not None and needs[pool] > left:
            return f"{format_bytes(needs[pool])} needed on {pool} and the target leaves {format_bytes(max(left, 0))}"
    raise AssertionError("called for what does not fit")


def _settle(verdict: DraftVerdict, best: DraftVerdict | None) -> DraftVerdict:
    if verdict is best or verdict.choice is None or best is None:
        return verdict
    assert best.expected_speedup is not None
    assert verdict.expected_speedup is not None
    reason = (
        f"fits, but {best.path} is expected to gain more ({best.expected_speedup:.2f}x, this one "
        f"{verdict.expected_speedup:.2f}x)"
    )
    if best.expected_speedup == verdict.expected_speedup:
        reason = f"fits, but {best.path} was named first and is expected to gain as much"
    return replace(verdict, is_admitted=False, choice=None, reason=reason)


def _free(max_draft_tokens: int) -> DraftVerdict:
    if max_draft_tokens == 0:
        return DraftVerdict(None, None, None, None, False, _NOTHING)
    return DraftVerdict(None, None, None, None, True, "take no memory worth counting")
