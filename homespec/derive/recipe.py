"""What a copy is made of: parsed, checked and named without touching a model. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import DeriveError
from homespec.store.companions import copy_path

QUANTS = (
    "Q2_K",
    "Q3_K_S",
    "Q3_K_M",
    "Q3_K_L",
    "IQ4_XS",
    "IQ4_NL",
    "Q4_0",
    "Q4_1",
    "Q4_K_S",
    "Q4_K_M",
    "Q5_0",
    "Q5_1",
    "Q5_K_S",
    "Q5_K_M",
    "Q6_K",
    "Q8_0",
)
"""Types that llama.cpp makes without an importance matrix, small ones first."""

_ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the copy differs from the model."""

    quant: str | None
    """Type of the weights; None: as they are."""
    layers: tuple[int, ...] | None
    """Layers to keep, in ascending order; None: all."""

    @property
    def name(self) -> str:
        """A part of a file's name: `Q2_K`, `layers-0-9+28-29`, or both."""
        layers = f"layers-{_ranges(self.layers)}" if self.layers is not None else None
        return "-".join(part for part in (self.quant, layers) if part)

    def path_beside(self, model: Path) -> Path:
        """Where the copy goes unless the user names a place."""
        return copy_path(model, self.name)


def parse(quant: str | None, keep_layers: str | None) -> Recipe:
    """Raises DeriveError for what cannot be meant."""
    if quant is None and keep_layers is None:
        raise DeriveError("nothing to change: pass --quant Q2_K (or another type), --keep-layers 0-9,28-29, or both")
    return Recipe(_quant(quant), _layers(keep_layers))


def _quant(text: str | None) -> str | None:
    if text is None:
        return None
    name = _ALIASES.get(text.upper(), text.upper())
    if name not in QUANTS:
        raise DeriveError(f"--quant {text!r} is not a type that can be made; use one of {', '.join(QUANTS)}")
    return name


def _layers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    kept: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise DeriveError(f"--keep-layers {text!r}: {part!r} is neither a layer nor a range; write 0-9,28-29")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise DeriveError(f"--keep-layers {text!r}: {part!r} ends before it begins")
        kept.update(range(first, last + 1))
    return tuple(sorted(kept))


def _ranges(layers: tuple[int, ...]) -> str:
    """`0-9+28-29`."""
    starts = [layer for layer in layers if layer - 1 not in layers]
    ends = [layer for layer in layers if layer + 1 not in layers]
    return "+".join(f"{start}" if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))
