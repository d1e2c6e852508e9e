"""What the engine says to the daemon."""

from __future__ import annotations

import msgspec

from homespec.errors import ErrorInfo
from homespec.frames.frame import Frame
from homespec.status import EngineSnapshot, ModelStatus, SpeculationReport, Timings


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    """How likely the target held one token of the answer."""

    token_id: int
    logprob: float
    top: list[tuple[int, float]]
    """The likeliest tokens at this place, best first."""
    piece: bytes = b""
    """What it stands for, a control token spelled out; part of a character, maybe."""
    top_pieces: list[bytes] = []
    offset: int = 0
    """Characters of the answer's text in front of it."""

    @property
    def text(self) -> str:
        """Replacement marks stand for parts of characters."""
        return self.piece.decode(errors="replace")

    @property
    def likeliest(self) -> list[tuple[bytes, float]]:
        """Piece and log-probability of each of `top`."""
        return [(piece, logprob) for (_, logprob), piece in zip(self.top, self.top_pieces, strict=True)]


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
    logprobs: list[TokenLogprob] = msgspec.field(default_factory=list)
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
    logprobs: list[TokenLogprob] = msgspec.field(default_factory=list)
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
Answer = Delta | Finished | Embedded | Refused | Tokens | Text
"""Frames that belong to one request."""
