"""Which text of a streamed chunk accepted draft tokens wrote, as the daemon tells when it was asked for `spans`."""

from __future__ import annotations

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """Of an answer that is not finished."""

    rounds: int
    accepted: int
    """Draft tokens so far; each round adds one token more than it accepts."""
    spans: list[tuple[int, int]]
    """Half-open ranges of characters of the chunk's text."""

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per target pass so far; None before the first."""
        return 1 + self.accepted / self.rounds if self.rounds else None


class _Chunk(msgspec.Struct):
    speculative: Progress | None = None


_decoder = msgspec.json.Decoder(_Chunk)


def progress_in(data: str) -> Progress | None:
    """What a chunk says of drafting; None for one that says nothing, and for the report at the end."""
    try:
        return _decoder.decode(data).speculative
    except msgspec.DecodeError:
        return None
