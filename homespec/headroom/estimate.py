"""Sizes of target and drafter for the searches of the gate: asked of the survey child, computed where it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from homespec.errors import EngineError
from homespec.footprint import (
    Described,
    DescribeModel,
    Failed,
    Footprint,
    ModelFacts,
    Shares,
    Sized,
    SizeDrafter,
    SizeTarget,
)
from homespec.frames import EngineSettings
from homespec.headroom.admission import DraftChoice
from homespec.headroom.choice import Choice
from homespec.headroom.computed import computed
from homespec.headroom.survey import Survey

LARGE_CTX = 65536
"""llama.cpp keeps some 50 bytes of its own per cell, also in a dry run: with more than this many it is asked only when
the whole could fit."""
MAX_DEATHS = 2

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
Decision = TypeVar("Decision")


async def drive(
    search: Generator[Asked, Answered, Decision], answer: Callable[[Asked], Awaitable[Answered]]
) -> Decision:
    """Run a search of the gate to its decision."""
    try:
        question = next(search)
        while True:
            question = search.send(await answer(question))
    except StopIteration as done:
        decision: Decision = done.value
        return decision


@dataclass(slots=True)
class Estimator:
    """Sizes of one target and its drafters. Asks nothing twice."""

    survey: Survey
    settings: EngineSettings
    facts: ModelFacts
    device: str | None
    """The device that layers go to; None on a box without one."""
    capacity_bytes: int | None
    """All memory of the box and its devices; None when it is not known."""
    _sizes: dict[Choice, Footprint] = field(default_factory=dict)
    _deaths: int = 0

    async def target(self, choice: Choice) -> Footprint:
        """What the target takes; computed, and marked so, where it cannot be measured."""
        if choice not in self._sizes:
            self._sizes[choice] = await self._measure(choice)
        return self._sizes[choice]

    async def drafter(self, way: DraftChoice, target: Choice) -> Footprint | str:
        """What a drafter takes beside that target, or why it cannot be used."""
        settings = with_draft(with_target(self.settings, target), way)
        try:
            match await self.survey.ask(SizeDrafter(settings)):
                case Sized(footprint):
                    return footprint
                case Failed(_, message):
                    return message
                case answer:
                    raise EngineError(f"{type(answer).__name__} in answer to SizeDrafter")
        except EngineError as error:
            return await self._computed_drafter(settings, str(error))

    async def _measure(self, choice: Choice) -> Footprint:
        if choice.n_ctx is not None and choice.n_ctx > LARGE_CTX:
            extended = await self._extended(choice, choice.n_ctx)
            if self.capacity_bytes is None or extended.total_bytes > self.capacity_bytes:
                return extended
        settings = with_target(self.settings, choice)
        if self._deaths >= MAX_DEATHS:
            return self._computed(settings, "the dry run died before")
        try:
            match await self.survey.ask(SizeTarget(settings)):
                case Sized(footprint):
                    return footprint
                case Failed(_, message):
                    return self._computed(settings, message)
                case answer:
                    raise EngineError(f"{type(answer).__name__} in answer to SizeTarget")
        except EngineError as error:
            self._deaths += 1
            return self._computed(settings, f"the dry run was {error}")

    async def _extended(self, choice: Choice, n_ctx: int) -> Footprint:
        """From two measurements: beyond any window, cells cost the same each."""
        half = await self.target(replace(choice, n_ctx=LARGE_CTX // 2))
        whole = await self.target(replace(choice, n_ctx=LARGE_CTX))
        factor = (n_ctx - whole.n_ctx) / (whole.n_ctx - half.n_ctx)
        return Footprint(
            {name: _line(half.on(name), shares, factor) for name, shares in whole.devices.items()},
            n_ctx=n_ctx,
            kv_type=whole.kv_type,
            growth_bytes=whole.growth_bytes,
            reclaimable_bytes=whole.reclaimable_bytes,
            measured=False,
            note=whole.note or f"extended from what {half.n_ctx} and {whole.n_ctx} tokens take",
        )

    def _computed(self, settings: EngineSettings, note: str) -> Footprint:
        return computed(self.facts, settings, note, device=self.device)

    async def _computed_drafter(self, settings: EngineSettings, reason: str) -> Footprint | str:
        assert settings.draft_path is not None
        try:
            answer = await self.survey.ask(DescribeModel(settings.draft_path, settings.model_path))
        except EngineError as error:
            return f"its header cannot be read: {error}"
        if not isinstance(answer, Described):
            return answer.message if isinstance(answer, Failed) else f"unexpected answer {type(answer).__name__}"
        own = msgspec.structs.replace(
            settings,
            n_ctx=settings.draft_n_ctx or settings.n_ctx,
            kv_type=settings.draft_kv_type or settings.kv_type,
            n_gpu_layers=settings.n_gpu_layers if settings.draft_gpu_layers is None else settings.draft_gpu_layers,
        )
        return computed(answer.facts, own, f"the dry run was {reason}", device=self.device)


def with_target(settings: EngineSettings, choice: Choice) -> EngineSettings:
    """The engine's settings with the target as chosen."""
    return msgspec.structs.replace(
        settings, n_ctx=choice.n_ctx, kv_type=choice.kv_type, n_gpu_layers=choice.n_gpu_layers, slots=choice.slots
    )


def with_draft(settings: EngineSettings, way: DraftChoice) -> EngineSettings:
    """The engine's settings with the draft model loaded that way; nothing of the target's changes."""
    return msgspec.structs.replace(
        settings,
        draft_path=way.path,
        draft_n_ctx=way.n_ctx,
        draft_kv_type=way.kv_type,
        draft_gpu_layers=way.n_gpu_layers,
    )


def _line(half: Shares, whole: Shares, factor: float) -> Shares:
    """The value at `factor` steps behind the second of two points; it never falls."""

    def at(name: str) -> int:
        first, second = getattr(half, name), getattr(whole, name)
        return int(second + max(second - first, 0) * factor)

    return Shares(at("weights_bytes"), at("kv_bytes"), at("compute_bytes"), at("output_bytes"))
