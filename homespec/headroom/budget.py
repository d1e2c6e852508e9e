"""What may be taken: readings of each device with what must stay free. Values only; who reads them is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from homespec.errors import ConfigError
from homespec.footprint import HOST, Footprint
from homespec.units import format_bytes


@dataclass(frozen=True, slots=True)
class DeviceBudget:
    """One pool of memory."""

    name: str
    total_bytes: int | None
    free_bytes: int | None
    """None: not known; then nothing is refused for it, and nothing is moved there for the sake of it."""
    reserve_bytes: int
    is_unified: bool = False
    """A device whose memory is the memory of the box: what it takes counts there too."""

    def __post_init__(self) -> None:
        if self.total_bytes is not None and self.reserve_bytes >= self.total_bytes:
            raise ConfigError(
                f"reserve_mib: a reserve of {format_bytes(self.reserve_bytes)} leaves nothing of {self.name}, "
                f"which has {format_bytes(self.total_bytes)}; lower it"
            )

    @property
    def headroom_bytes(self) -> int | None:
        return None if self.free_bytes is None else self.free_bytes - self.reserve_bytes


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory of the box, and of the devices that can hold layers, best first."""

    host: DeviceBudget
    devices: tuple[DeviceBudget, ...] = ()

    def pools(self) -> tuple[DeviceBudget, ...]:
        """Everything that has a limit, the box last."""
        return (*self.devices, self.host)

    def draws_on(self, device: str) -> tuple[str, ...]:
        """The pools that a device of llama.cpp's takes from: its own, and the box's where that is the same memory."""
        for budget in self.devices:
            if budget.name == device:
                return (device, HOST) if budget.is_unified else (device,)
        return (HOST,)

    def required(self, *footprints: Footprint) -> Mapping[str, int]:
        """Bytes that the footprints take from each pool."""
        needs = dict.fromkeys((pool.name for pool in self.pools()), 0)
        for footprint in footprints:
            for device, shares in footprint.devices.items():
                for pool in self.draws_on(device):
                    needs[pool] += shares.total_bytes
        return needs

    def shortage(self, *footprints: Footprint) -> str | None:
        """Where they do not fit together and by how much; None when they do."""
        return self._shortage(self.pools(), footprints)

    def device_shortage(self, *footprints: Footprint) -> str | None:
        """The same, whatever the box itself holds."""
        return self._shortage(self.pools()[:-1], footprints)

    def _shortage(self, pools: Sequence[DeviceBudget], footprints: Sequence[Footprint]) -> str | None:
        required = self.required(*footprints)
        for pool in pools:
            headroom = pool.headroom_bytes
            if headroom is not None and required[pool.name] > headroom:
                need, have = format_bytes(required[pool.name]), format_bytes(max(headroom, 0))
                parts = f"{format_bytes(pool.free_bytes)} free, {format_bytes(pool.reserve_bytes)} kept free"
                return f"{need} needed on {pool.name}, {have} may be used ({parts})"
        return None

    def headroom_after(self, *footprints: Footprint) -> Mapping[str, int | None]:
        """What is left of each pool's headroom; None where it is not known."""
        required = self.required(*footprints)
        return {
            pool.name: None if pool.headroom_bytes is None else pool.headroom_bytes - required[pool.name]
            for pool in self.pools()
        }

    def before(self, loaded: Footprint) -> Budget:
        """The budget from before that was loaded, for plans that count it in. What it has yet to grow into is free."""
        taken = {**self.required(loaded)}
        taken[HOST] -= loaded.growth_bytes

        def given_back(pool: DeviceBudget) -> DeviceBudget:
            free = None if pool.free_bytes is None else pool.free_bytes + taken[pool.name]
            return replace(pool, free_bytes=free)

        return Budget(given_back(self.host), tuple(given_back(device) for device in self.devices))

    @property
    def capacity_bytes(self) -> int | None:
        """All memory there is, in use or not; None when a part is not known."""
        totals = [pool.total_bytes for pool in self.pools() if not pool.is_unified]
        return None if None in totals else sum(total for total in totals if total is not None)
