"""What can be decided about the target, and what was: settings with their sizes and reasons."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.footprint import Footprint
from homespec.units import format_bytes

ALL_LAYERS = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings that decide about the target's size, as the engine takes them."""

    n_ctx: int | None
    """None: what the engine takes by itself."""
    kv_type: str
    """`auto`: what the engine takes by itself."""
    n_gpu_layers: int
    slots: int


@dataclass(frozen=True, slots=True)
class Freedom:
    """Which values may be chosen."""

    n_ctx: bool
    kv_type: bool
    n_gpu_layers: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user has said about the target; None is automatic."""

    n_ctx: int | None
    kv_type: str | None
    n_gpu_layers: int | None
    slots: int
    n_layer: int
    """Of the model, the output layer not counted."""
    has_device: bool
    can_quantize_kv: bool = True
    """False when flash attention is switched off."""

    @property
    def freedom(self) -> Freedom:
        return Freedom(self.n_ctx is None, self.kv_type is None, self.n_gpu_layers is None)

    @property
    def first(self) -> Choice:
        """Everything as asked, the best of what was left open."""
        layers = ALL_LAYERS if self.n_gpu_layers is None else self.n_gpu_layers
        return Choice(self.n_ctx, self.kv_type or "auto", layers, self.slots)


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """What the target is loaded with."""

    choice: Choice
    footprint: Footprint
    changes: tuple[str, ...] = ()
    """Automatic values that are not what they are on a box with room, each with its reason."""

    def flags(self, asked: Asked) -> str:
        """The flags that ask for this plan, as far as they differ from what was asked."""
        first, choice = asked.first, self.choice
        values = {
            "--ctx": (choice.n_ctx, first.n_ctx),
            "--kv-type": (choice.kv_type, first.kv_type),
            "--gpu-layers": (choice.n_gpu_layers, first.n_gpu_layers),
            "--slots": (choice.slots, first.slots),
        }
        return " ".join(f"{flag} {value}" for flag, (value, before) in values.items() if value != before)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The target does not fit as asked."""

    reason: str
    footprint: Footprint
    """What was asked for would take this."""
    nearest: TargetPlan | None
    """The plan that fits and gives up least; None when nothing does."""

    def explain(self, asked: Asked) -> str:
        """One line: what it would take, what there is, and what would fit."""
        took = f"{self.footprint.n_ctx} tokens of context and {asked.slots} slots"
        text = f"the model does not fit with {took}: {self.reason}"
        if not self.footprint.measured:
            text += f" (computed: {self.footprint.note})"
        if self.nearest is None:
            return f"{text}. No other setting fits either; free memory or use a smaller model"
        size = format_bytes(self.nearest.footprint.total_bytes)
        return f"{text}. Nearest that fits: {self.nearest.flags(asked)} ({size} in all)"
