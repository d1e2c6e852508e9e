"""Whether a draft model's vocabulary fits the target's, and if not, exactly why.

llama.cpp's own check (common_speculative_are_compatible) reports one sentence for every fault, starts at id 5 and
ignores token types; this one names the check, the ids and both texts.
"""

from __future__ import annotations

from typing import Protocol

MAX_SIZE_DIFFERENCE = 128
"""Padding ids at the end of a vocabulary: llama.cpp's SPEC_VOCAB_MAX_SIZE_DIFFERENCE."""


class PairVocab(Protocol):
    """What the check reads of a vocabulary."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def type(self) -> int: ...
    @property
    def adds_bos(self) -> bool: ...
    @property
    def adds_eos(self) -> bool: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eos(self) -> int | None: ...
    def text(self, token_id: int) -> bytes: ...
    def attributes(self, token_id: int) -> int: ...


def mismatch(target: PairVocab, draft: PairVocab) -> str | None:
    """Why this pair cannot be used, or None when it can."""
    if target.type != draft.type:
        return f"vocabulary types differ: target {target.type}, drafter {draft.type}"
    for name in ("bos", "eos"):
        if reason := _policy_mismatch(name, target, draft):
            return reason
    difference = abs(target.n_vocab - draft.n_vocab)
    if difference > MAX_SIZE_DIFFERENCE:
        return (
            f"vocabulary sizes differ by {difference}: target {target.n_vocab}, drafter {draft.n_vocab}; "
            f"at most {MAX_SIZE_DIFFERENCE} padding tokens may differ"
        )
    return _token_mismatch(target, draft)


def _policy_mismatch(name: str, target: PairVocab, draft: PairVocab) -> str | None:
    wants = [bool(getattr(vocab, f"adds_{name}")) for vocab in (target, draft)]
    if wants[0] != wants[1]:
        words = ["adds" if want else "does not add" for want in wants]
        return f"{name.upper()} policy differs: the target {words[0]} it, the drafter {words[1]} it"
    ids = [getattr(vocab, name) for vocab in (target, draft)]
    if wants[0] and ids[0] != ids[1]:
        return f"{name.upper()} token differs: target id {ids[0]}, drafter id {ids[1]}"
    return None


def _token_mismatch(target: PairVocab, draft: PairVocab) -> str | None:
    for token_id in range(min(target.n_vocab, draft.n_vocab)):
        ours, theirs = target.text(token_id), draft.text(token_id)
        if ours != theirs:
            return f"token {token_id} differs: target {_shown(ours)}, drafter {_shown(theirs)}"
        kinds = target.attributes(token_id), draft.attributes(token_id)
        if kinds[0] != kinds[1]:
            return f"token {token_id} {_shown(ours)} differs in type: target {kinds[0]}, drafter {kinds[1]}"
    return None


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="replace"))
