"""What is said of one token of an answer."""

from __future__ import annotations

from typing import Any

from homespec.frames import TokenLogprob


def token_entry(each: TokenLogprob) -> dict[str, Any]:
    """OpenAI's entry for one token; Ollama took it over."""
    top = [_entry(piece, logprob) for piece, logprob in each.likeliest]
    return {**_entry(each.piece, each.logprob), "top_logprobs": top}


def _entry(piece: bytes, logprob: float) -> dict[str, Any]:
    """Where a character takes several tokens, their bytes together are the character."""
    return {"token": piece.decode(errors="replace"), "logprob": logprob, "bytes": list(piece)}
