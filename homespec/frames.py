"""Typed messages between the daemon and its engine: the only thing that crosses. See link.py for how."""

from __future__ import annotations

from typing import Any

import msgspec

from homespec.errors import ErrorInfo
from homespec.status import EngineSnapshot, ModelStatus, SpeculationReport, Timings

DEFAULT_MAX_CTX = 8192
"""Context when none is asked for, unless the model was trained for less."""


class Frame(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of every message."""


class EngineSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the engine needs to know to load and serve one target."""

    model_path: str
    model_id: str
    draft_path: str | None = None
    draft_candidates: tuple[str, ...] = ()
    """Draft files that nobody named, the preferred one first: of those that fit, one becomes `draft_path`."""
    drafter_mode: str = "auto"
    draft_window: int | None = None
    """Tokens of a sequence that the draft model sees; None: all."""
    past_outputs_bytes: int = 0
    """Memory for past answers that may be drafted from; 0: none are kept."""
    past_outputs_path: str | None = None
    """File that they survive a restart in."""
    max_draft_tokens: int = 16
    controller: bool = True
    """Decide about drafter and D round by round, up to `max_draft_tokens`; False: always that many."""
    n_ctx: int | None = None
    """None: the trained context, at most `DEFAULT_MAX_CTX`."""
    slots: int = 4
    cached_prefixes: int = 8
    prefill_chunk: int = 256
    threads: int | None = None
    nice: int = 0
    """Added to the daemon's own nice level."""
    n_gpu_layers: int = -1
    """Layers of the target on the device; negative means all."""
    kv_type: str = "auto"
    flash_attention: str = "auto"
    mmap: bool = True
    acceptance: str = "coupled"
    """coupled: the text does not depend on the drafter; rejection: more draft tokens are accepted."""
    exactness: str = "auto"
    """auto: measured; strict: whatever makes it so, or refuse; fast: neither measured nor sought."""
    embeddings: str = "auto"
    """auto: an embedding model embeds, as its file says, and no other; else the pooling: mean, cls or last."""
    chat_template: str = "auto"
    """auto: the model file's own; else the name of a built-in one, or the path of a file."""
    log_native: bool = False
    """Pass llama.cpp's own information lines to the log."""
    quarantined: dict[str, str] = {}
    """Drafters that must stay off until they are asked for by name, with the reason."""
    withdrawn: str = ""
    """Why no drafter with memory of its own may be loaded at present; empty when one may."""
    refused: dict[str, str] = {}
    """Drafters that do not fit, with the reason; asking for them does not change that, `Admit` does."""
    draft_n_ctx: int | None = None
    """Context of the draft model; None: the target's, at most what it was trained for."""
    draft_kv_type: str | None = None
    """None: the target's."""
    draft_gpu_layers: int | None = None
    """None: as many as the target has."""


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a token is chosen from a row of logits, in llama.cpp's order of the chain."""

    temperature: float = 0.8
    """0 is greedy."""
    top_k: int = 40
    """0 keeps every token."""
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0
    logit_bias: dict[int, float] = {}
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    """Tokens that the three penalties look back on, prompt included; -1 means all."""


class Speculation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request asks of the drafters."""

    mode: str = "auto"
    max_draft_tokens: int | None = None
    acceptance: str | None = None
    """None: as the engine is set."""
    spans: bool = False
    """Say of a streamed text which of it accepted draft tokens wrote."""


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the answer must look like."""

    kind: str
    """json_schema, regex, lark, or grammar (Lark or GBNF)."""
    text: str
    param: str
    """The request field it came from."""


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """How likely the target held one token of the answer."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]]
    """The likeliest tokens at this place, best first."""
    text: str = ""
    top_texts: list[str] = []


class FunctionSpec(msgspec.Struct, frozen=True, array_like=True):
    """A function that the answer may call."""

    name: str
    schema: str
    """JSON schema of its arguments, as JSON."""
    strict: bool = False
    """Followed to the letter or refused."""


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which calls an answer may hold."""

    tool_format: str
    """Name of a row in homespec.chat.tool_format."""
    functions: tuple[FunctionSpec, ...]
    required: bool = False
    """The answer is nothing but calls."""
    parallel: bool = True
    """More than one call is allowed."""
    answer_schema: str | None = None
    """JSON schema of an answer that is not a call."""


class ChatPrompt(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Messages for the model's chat template; content is already plain text."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    """For a template that knows tools."""
    variables: dict[str, Any] = {}
    """More variables for the template, such as enable_thinking."""
    prefill: str = ""
    """The answer's beginning, which the model goes on from."""
    markers: tuple[str, ...] = ()
    """Texts that structure an answer: spelled out even where the vocabulary holds them as control tokens."""
    reasoning: tuple[str, str] | None = None
    """The pair of them around a thinking block."""


class TextPrompt(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    text: str
    suffix: str = ""
    """Text behind the gap that is to be filled; empty: there is none, the text is gone on from."""


class TokenPrompt(msgspec.Struct, frozen=True, tag=True):
    token_ids: list[int]


# Daemon to engine


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


# Engine to daemon


class Loading(Frame, frozen=True):
    progress: float
    """0 to 1."""
    detail: str


class Ready(Frame, frozen=True):
    model: ModelStatus


class Measured(Frame, frozen=True):
    """What is known of the engine's exactness; sent after Ready, and again when that changes."""

    exactness: str
    """`strict` or `distribution`."""
    reason: str
    threads: int | None = None
    """That decode a single row, as they were chosen before; None: not chosen since Ready."""


class LoadFailed(Frame, frozen=True):
    """The target cannot be loaded; the engine exits."""

    kind: str
    """Name of a ModelError class."""
    message: str


class Noted(Frame, frozen=True):
    """What is done differently from what a request asked; sent before its first answer."""

    request_id: str
    notices: tuple[str, ...]


class DraftProgress(msgspec.Struct, frozen=True, array_like=True):
    """What drafting has done for an answer so far."""

    rounds: int
    accepted: int
    spans: list[tuple[int, int]]
    """Half-open ranges of the answer's characters that accepted draft tokens wrote, each told once."""


class Delta(Frame, frozen=True):
    request_id: str
    text: str
    num_tokens: int
    """Tokens of the answer so far."""
    logprobs: list[TokenLogprob] = []
    """Of the tokens since the last Delta."""
    progress: DraftProgress | None = None
    """Only where it was asked for."""


class Finished(Frame, frozen=True):
    request_id: str
    text: str
    """Empty for a streamed request: its Deltas carried it."""
    finish_reason: str
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    timings: Timings
    speculation: SpeculationReport
    logprobs: list[TokenLogprob] = []
    """Of the tokens that no Delta has carried."""


class Embedded(Frame, frozen=True):
    """Answer to Embed."""

    request_id: str
    vectors: list[bytes]
    """Of length 1; float32, little-endian."""
    num_tokens: int
    """Of all texts together."""


class Refused(Frame, frozen=True):
    request_id: str
    error: ErrorInfo


class Tokens(Frame, frozen=True):
    """Answer to Tokenize."""

    request_id: str
    token_ids: list[int]


class Text(Frame, frozen=True):
    """Answer to Detokenize."""

    request_id: str
    text: str


class Snapshot(Frame, frozen=True):
    snapshot: EngineSnapshot


class Heartbeat(Frame, frozen=True):
    """Sent by a thread of its own: `progress` comes from the decode loop, not from that thread."""

    progress: int
    busy: bool


class Happened(Frame, frozen=True):
    """A change of state inside the engine, for the event list."""

    kind: str
    text: str


ToEngine = (
    Start
    | Generate
    | Embed
    | Cancel
    | SetDrafter
    | Withdraw
    | Readmit
    | Admit
    | ReloadDrafter
    | Tokenize
    | Detokenize
    | Stop
)
FromEngine = (
    Loading
    | Ready
    | Measured
    | LoadFailed
    | Noted
    | Delta
    | Finished
    | Embedded
    | Refused
    | Tokens
    | Text
    | Snapshot
    | Heartbeat
    | Happened
)
Request = Generate | Embed | Tokenize | Detokenize
"""Frames that are answered."""
Answer = Delta | Finished | Embedded | Refused | Tokens | Text
"""Frames that belong to one request."""
