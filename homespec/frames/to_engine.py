"""What the daemon says to the engine."""

from __future__ import annotations

import msgspec

from homespec.frames.frame import Frame
from homespec.frames.generation import Constraint, Sampling, Speculation, ToolUse
from homespec.frames.prompt import ChatPrompt, TextPrompt, TokenPrompt
from homespec.frames.settings import EngineSettings


class Start(Frame, frozen=True):
    """The first frame: load this."""

    settings: EngineSettings


class Generate(Frame, frozen=True):
    request_id: str
    prompt: ChatPrompt | TextPrompt | TokenPrompt
    sampling: Sampling
    speculation: Speculation = Speculation()
    max_tokens: int | None = None
    """None: until the context is full."""
    stop: tuple[str, ...] = ()
    stream: bool = False
    """False: no Delta frames, the whole text comes with Finished."""
    partition: str = ""
    """Prefixes are shared only among requests of one partition (one API key, one cache_salt)."""
    salted: bool = False
    """The partition is that of a cache_salt: nothing of it outlives the engine."""
    reuse: bool = True
    """False: nothing that is kept of earlier requests is started from."""
    ignore_eos: bool = False
    constraint: Constraint | None = None
    tool_use: ToolUse | None = None
    num_logprobs: int | None = None
    """Top tokens to report beside each token of the answer; None: no logprobs at all."""
    echo: bool = False
    """Put the prompt's text in front of the answer's."""


class Embed(Frame, frozen=True):
    """Make vectors of texts."""

    request_id: str
    inputs: list[str | list[int]]
    """Texts, or their token ids."""
    dimensions: int | None = None
    """Of the vectors; None: as many as the model gives."""
    truncate: bool = False
    """Cut texts that are too long, and say so; else they are refused."""


class Cancel(Frame, frozen=True):
    request_id: str


class SetDrafter(Frame, frozen=True):
    mode: str


class Withdraw(Frame, frozen=True):
    """Unload every drafter with memory of its own before the next round, and keep it out."""

    reason: str


class Readmit(Frame, frozen=True):
    """Drafters with memory of their own may be loaded again."""


class Admit(Frame, frozen=True):
    """The draft file that did not fit does so now: it may be loaded, in this way. See EngineSettings."""

    draft_n_ctx: int | None
    draft_kv_type: str | None
    draft_gpu_layers: int | None

    def applied_to(self, settings: EngineSettings) -> EngineSettings:
        """Nothing of the target's changes."""
        return msgspec.structs.replace(
            settings,
            refused={},
            draft_n_ctx=self.draft_n_ctx,
            draft_kv_type=self.draft_kv_type,
            draft_gpu_layers=self.draft_gpu_layers,
        )


class ReloadDrafter(Frame, frozen=True):
    """Unload the draft model before the next round, and load it again from its file."""


class Tokenize(Frame, frozen=True):
    request_id: str
    text: str
    special: bool = False


class Detokenize(Frame, frozen=True):
    request_id: str
    token_ids: list[int]


class Stop(Frame, frozen=True):
    """End now; running requests are dropped."""


DrafterOrder = SetDrafter | Withdraw | Readmit | Admit | ReloadDrafter
"""Frames that change which drafters there are."""
ToEngine = Start | Generate | Embed | Cancel | DrafterOrder | Tokenize | Detokenize | Stop
Request = Generate | Embed | Tokenize | Detokenize
"""Frames that are answered."""
