"""Water marks of a pool: how much stays free, when the drafter goes, when it may come back."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.config import Settings
from homespec.errors import ConfigError
from homespec.units import GIB, MIB, format_bytes

_SHARE = 20
_LEAST, _MOST = 256 * MIB, GIB
_SMALL_SHARE = 8
_OF_UNKNOWN = 512 * MIB
"""Reserve of a pool whose size is not known."""


@dataclass(frozen=True, slots=True)
class Marks:
    """For one pool, in bytes; low < high."""

    reserve_bytes: int
    low_bytes: int
    high_bytes: int


@dataclass(frozen=True, slots=True)
class WantedMarks:
    """What the user has set; None: chosen for each pool."""

    reserve_bytes: int | None = None
    low_bytes: int | None = None
    high_bytes: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> WantedMarks:
        wanted = (settings.reserve_mib, settings.low_mark_mib, settings.high_mark_mib)
        return cls(*(None if value == "auto" else value * MIB for value in wanted))

    def check(self, pool: str, total_bytes: int | None) -> None:
        """Raises ConfigError for a mark that lies above everything there is."""
        for key, mark, effect in (
            ("low_mark_mib", self.low_bytes, "no draft model would ever stay loaded"),
            ("high_mark_mib", self.high_bytes, "no draft model would ever come back"),
        ):
            if mark is not None and total_bytes is not None and mark >= total_bytes:
                raise ConfigError(
                    f"{key}: with a mark of {format_bytes(mark)} on {pool}, which has {format_bytes(total_bytes)}, "
                    f"{effect}; lower it"
                )

    def reserve(self, total_bytes: int | None) -> int:
        """What stays free of a pool of this size: see `on`."""
        if self.reserve_bytes is not None:
            return self.reserve_bytes
        if total_bytes is None:
            return _OF_UNKNOWN
        return min(max(total_bytes // _SHARE, _LEAST), _MOST, total_bytes // _SMALL_SHARE)

    def high(self, total_bytes: int | None) -> int:
        """The high mark of a pool of this size; its reserve where that is not known."""
        return self.reserve(total_bytes) if total_bytes is None else self.on(total_bytes).high_bytes

    def on(self, total_bytes: int) -> Marks:
        """The marks of a pool of this size.

        Reserve: a twentieth, at least 256 MiB, at most 1 GiB, and never more than an eighth. A drafter that was
        admitted leaves the reserve free, so that is the high mark; half of it is the low one. A mark that is set moves
        the one that is not, so that low stays below high.
        """
        reserve = self.reserve(total_bytes)
        low, high = self.low_bytes, self.high_bytes
        if high is None:
            high = max(reserve, 1) if low is None else max(reserve, 2 * low, 1)
        if low is None:
            low = min(reserve, high) // 2
        return Marks(reserve, low, high)
