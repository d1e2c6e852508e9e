"""What a dry run is asked and what it answers: the messages between whoever plans and the survey child.

Lines of JSON over pipes, one question, one answer. Sizes are bytes; devices go by llama.cpp's names, and `CPU` is the
memory of the box.
"""

from __future__ import annotations

import msgspec

from homespec.frames import EngineSettings
from homespec.memory_plan import MemoryPlan
from homespec.status import ModelMemory
from homespec.units import MIB, format_bytes

HOST = "CPU"
TOLERANCE = 0.03
TOLERANCE_BYTES = 32 * MIB
"""An estimate that is off by less than either is right."""


class Shares(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one model takes on one device."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    """KV cache, and the state of recurrent layers."""
    compute_bytes: int = 0
    output_bytes: int = 0
    """Logits of as many rows as one call may ask for: llama.cpp grows this buffer later and does not log that."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes + self.output_bytes

    def __add__(self, other: Shares) -> Shares:
        return Shares(
            self.weights_bytes + other.weights_bytes,
            self.kv_bytes + other.kv_bytes,
            self.compute_bytes + other.compute_bytes,
            self.output_bytes + other.output_bytes,
        )


class Footprint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model with its context takes, per device."""

    devices: dict[str, Shares]
    n_ctx: int
    """Tokens of context that llama.cpp makes of what it was asked for."""
    kv_type: str
    growth_bytes: int = 0
    """Part of the output buffer that is not there before the first full batch."""
    reclaimable_bytes: int = 0
    """Mapped pages of the file that nothing reads after the load, such as the originals of repacked weights: not in
    `devices`."""
    measured: bool = True
    note: str = ""
    """Why it was computed and not measured."""

    @property
    def total_bytes(self) -> int:
        return sum(shares.total_bytes for shares in self.devices.values())

    def on(self, device: str) -> Shares:
        return self.devices.get(device, Shares())

    def with_context(self, other: Footprint) -> Footprint:
        """With a second context of the same model, whose weights lie in memory once."""
        added = {device: msgspec.structs.replace(shares, weights_bytes=0) for device, shares in other.devices.items()}
        devices = {name: self.on(name) + added.get(name, Shares()) for name in self.devices.keys() | added.keys()}
        return msgspec.structs.replace(self, devices=devices, growth_bytes=self.growth_bytes + other.growth_bytes)

    def with_weights_of(self, other: Footprint) -> Footprint:
        """The same with the weights of a part of its file that is loaded along."""
        weights = {device: Shares(shares.weights_bytes) for device, shares in other.devices.items()}
        devices = {device: self.on(device) + weights.get(device, Shares()) for device in {**self.devices, **weights}}
        # Where the part lies between what is mapped anyway, it is not idle any more.
        reclaimable = max(0, self.reclaimable_bytes - other.on(HOST).weights_bytes)
        return msgspec.structs.replace(self, devices=devices, reclaimable_bytes=reclaimable)

    @property
    def at_load(self) -> ModelMemory:
        """The same as llama.cpp logs it at a real load."""
        shares = sum(self.devices.values(), Shares())
        return ModelMemory(
            shares.weights_bytes + self.reclaimable_bytes,
            shares.kv_bytes,
            shares.compute_bytes + shares.output_bytes - self.growth_bytes,
        )

    def disagreement(self, logged: ModelMemory) -> str | None:
        """How far the estimate is off what a real load has logged; None while it is right."""
        expected = self.at_load.total_bytes
        difference = abs(logged.total_bytes - expected)
        if difference <= max(TOLERANCE_BYTES, TOLERANCE * logged.total_bytes):
            return None
        return f"estimated at {format_bytes(expected)}, {format_bytes(logged.total_bytes)} were allocated"


class Fitted(msgspec.Struct, frozen=True):
    """Settings that fit, as the engine is started with them."""

    settings: EngineSettings
    events: tuple[str, ...]
    """What was decided on the way, one line each."""
    target: Footprint | None
    """What the target is expected to take; None when it was not estimated."""
    plan: MemoryPlan | None = None
    """The same with what was decided about drafters, for /status."""


class ModelFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a header says of a model, as far as planning needs it."""

    architecture: str
    file_bytes: int
    weights_bytes: int
    """Sum of the tensors that are loaded."""
    num_params: int
    """Weights in them."""
    n_layer: int
    n_embd: int
    n_ff: int
    n_vocab: int
    n_ctx_train: int
    n_head: int
    n_head_kv: int
    head_widths: tuple[int, int]
    """Width of a key head and of a value head, in elements."""
    drafter_kind: str
    """What it could be as a drafter; `draft` for an ordinary model."""
    target_layers: tuple[int, ...] = ()
    """Layers of the target that a drafter of hidden states reads."""
    block_size: int | None = None
    is_in_target: bool = False
    """A block of the target's own file: it is loaded with the target, and where that is."""
    embeds_only: bool = False
    """It makes embeddings and no text, so nothing is drafted for it."""
    num_mtp_layers: int = 0
    """How many of `n_layer` are blocks behind the trunk, which predict further tokens."""


class Device(msgspec.Struct, frozen=True):
    """A device as ggml tells of it."""

    name: str
    description: str
    total_bytes: int | None
    free_bytes: int | None
    """None: not every backend tells."""
    is_unified: bool
    """Its memory is the memory of the box."""


# Questions


class DescribeModel(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    path: str
    target_path: str | None = None
    """Describe what of it would draft for this target: of a file with an MTP block, only that."""


class ListDevices(msgspec.Struct, frozen=True, tag=True):
    pass


class SizeTarget(msgspec.Struct, frozen=True, tag=True):
    """What the target takes with exactly these settings."""

    settings: EngineSettings


class SizeDrafter(msgspec.Struct, frozen=True, tag=True):
    """What the settings' draft model takes beside their target."""

    settings: EngineSettings


class CheckPair(msgspec.Struct, frozen=True, tag=True):
    target_path: str
    draft_path: str


class MeasureSpeeds(msgspec.Struct, frozen=True, tag=True):
    """How fast this box is on `threads` threads."""

    threads: int


# Answers


class Described(msgspec.Struct, frozen=True, tag=True):
    facts: ModelFacts


class Devices(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    devices: tuple[Device, ...]
    may_change: bool = True
    """False: the library is built for nothing but the CPU, so there will be none later either."""


class Sized(msgspec.Struct, frozen=True, tag=True):
    footprint: Footprint


class PairChecked(msgspec.Struct, frozen=True, tag=True):
    kind: str
    failures: tuple[str, ...]
    """Each failed check; empty when the pair can be used."""


class Speeds(msgspec.Struct, frozen=True, tag=True):
    """Of the CPU side; a device's are not measured."""

    read_bytes_per_s: float
    flops: float
    """Multiplications and additions of single precision per second."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The child could not do it and lives on."""

    kind: str
    """Name of an error class."""
    message: str


Question = DescribeModel | ListDevices | SizeTarget | SizeDrafter | CheckPair | MeasureSpeeds
Answer = Described | Devices | Sized | PairChecked | Speeds | Failed
