"""Readings of memory beside what target and drafter hold there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from homespec.headroom.marks import WantedMarks
from homespec.headroom.policy import Observation, PoolLevel
from homespec.headroom.pools import CPU
from homespec.headroom.probe import Readings
from homespec.headroom.readings import Pool
from homespec.status import EngineSnapshot, ModelMemory, PoolStatus


def observe(readings: Readings, snapshot: EngineSnapshot, marks: WantedMarks, drafter: ModelMemory) -> Observation:
    """What the policy judges by. drafter: what it takes where it is loaded; nothing where that is not known."""
    known = drafter.total_bytes > 0
    levels = [
        PoolLevel(
            pool.name,
            pool.free_bytes,
            marks.on(pool.total_bytes),
            _part(drafter, pool.members).total_bytes if known else None,
        )
        for pool in readings.pools
        if pool.total_bytes is not None
    ]
    return Observation(
        pools=tuple(levels),
        is_loaded=snapshot.drafter_memory.total_bytes > 0,
        stall_share=readings.stall_share,
        stall_is_own=readings.stall_is_own,
        resident_share=readings.resident_share,
        major_faults_per_s=readings.major_faults_per_s,
    )


def held(memory: ModelMemory, mapped_bytes: int) -> ModelMemory:
    """What of a resident's memory is not free. The system may take mapped weights back, and counts them as available.

    mapped_bytes: resident pages of files that its engine has mapped, other files included.
    """
    on_cpu = memory.on(CPU)
    mapped = min(mapped_bytes, on_cpu.weights_bytes)
    rest = replace(on_cpu, weights_bytes=on_cpu.weights_bytes - mapped)
    return replace(memory, weights_bytes=memory.weights_bytes - mapped, by_device={**memory.by_device, CPU: rest})


def pool_status(pool: Pool, snapshot: EngineSnapshot, wanted: WantedMarks, residents: ModelMemory) -> PoolStatus:
    """A pool as it is shown. residents: what models hold that do not answer at present."""
    marks = wanted.on(pool.total_bytes) if pool.total_bytes is not None else None
    return PoolStatus(
        name=pool.name,
        description=pool.description,
        total_bytes=pool.total_bytes,
        free_bytes=pool.free_bytes,
        source=pool.source,
        target=_part(snapshot.target_memory, pool.members),
        drafter=_part(snapshot.drafter_memory, pool.members),
        reserve_bytes=marks.reserve_bytes if marks else None,
        low_bytes=marks.low_bytes if marks else None,
        high_bytes=marks.high_bytes if marks else None,
        residents_bytes=_part(residents, pool.members).total_bytes,
    )


def _part(memory: ModelMemory, members: Sequence[str]) -> ModelMemory:
    """What of a model's memory lies in a pool."""
    return sum((memory.on(name) for name in members), ModelMemory())
