"""What a model is, and what it takes: facts of a load."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """What the target's chat template can do, found out by rendering samples with it."""

    name: str
    """Family of its markers, for example `chatml`; `custom` for one that is not known."""
    source: str
    """the model file, built in, or the path of a file."""
    tool_format: str | None = None
    """How it teaches the model to write tool calls; None: it knows no tools, and homespec describes them itself."""
    tool_format_reason: str = ""
    """Where the form was seen, or why there is none."""
    writes_calls: bool = True
    """Calls of the conversation are written by it; else homespec spells them out in that form."""
    reasoning: tuple[str, str] | None = None
    """The markers around a thinking block; None without one."""
    takes_system: bool = True
    takes_neighbours: bool = True
    """Accepts two messages of one role in a row."""
    takes_objects: bool = True
    """Wants the arguments of a call as an object; else as JSON text."""
    variables: tuple[str, ...] = ()
    """Names that it reads beside messages and tools, such as enable_thinking."""


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """What vectors the model gives."""

    pooling: str
    """mean, cls or last: which states of a text make its vector."""
    num_dimensions: int
    max_tokens: int
    """Of one text."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """Facts of the loaded target; none but `threads` change while it runs."""

    id: str
    path: str
    description: str
    """llama.cpp's own words, for example `llama 135M Q4_1`."""
    architecture: str
    num_params: int
    size_bytes: int
    n_vocab: int
    n_layer: int
    n_ctx: int
    """Tokens that one request may use; all slots share the same pool."""
    n_ctx_train: int
    slots: int
    kv_type: str
    flash_attention: bool
    threads: int
    """That decode a single row: the usual number until another was measured to be faster."""
    devices: tuple[str, ...]
    """Names of the devices that hold weights; `CPU` alone means nothing was offloaded."""
    chat_template: str | None
    """Where the template comes from; None for a base model without one."""
    chat: ChatFormat | None = None
    generates: bool = True
    """False for an embedding model."""
    embedding: EmbeddingStatus | None = None
    """None for a model that is not loaded to embed texts."""
    fills_in: bool = False
    """It was taught to fill a gap between two texts."""


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that one model holds, over all devices, as llama.cpp logged them."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    """Compute and output buffers."""
    by_device: dict[str, ModelMemory] = field(default_factory=dict)
    """The same bytes by device name; what lies in host memory is under `CPU`."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes

    def __add__(self, other: ModelMemory) -> ModelMemory:
        names = self.by_device.keys() | other.by_device.keys()
        return ModelMemory(
            self.weights_bytes + other.weights_bytes,
            self.kv_bytes + other.kv_bytes,
            self.compute_bytes + other.compute_bytes,
            {name: self.on(name) + other.on(name) for name in names},
        )

    def on(self, device: str) -> ModelMemory:
        """The part on one device, nothing where nothing is."""
        return self.by_device.get(device, ModelMemory())


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device that can hold layers, as llama.cpp tells it (`ggml_backend_dev_get_props`)."""

    name: str
    """CUDA0, Vulkan0, MTL0, ...: the name in llama.cpp's buffer lines."""
    description: str
    device_id: str | None
    """PCI address, for example `0000:c1:00.0`; None where llama.cpp does not know it."""
    integrated: bool
    """It works in the host's own memory."""
    total_bytes: int | None
    free_bytes: int | None
