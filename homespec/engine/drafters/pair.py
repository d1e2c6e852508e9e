"""Whether a draft model or a head fits the target, and if not, exactly why.

llama.cpp's own check (common_speculative_are_compatible) reports one sentence for every fault, starts at id 5 and
ignores token types; this one names the check, the ids and both texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from homespec.engine.drafters.hosts import CROPPED_MTP_BLOCKS, LAST_OUTPUT, LAYER_INPUTS, MTP_BLOCKS, Host
from homespec.engine.drafters.kind import DFLASH, DSPARK, EAGLE3, GEMMA4, GEMMA4_ASSISTANT, MTP, Head, KvShape

EAGLE3_LAYERS = 3
"""Low, middle and high: llama.cpp's EAGLE-3 takes no other number."""

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
    return next(mismatches(target, draft), None)


def mismatches(target: PairVocab, draft: PairVocab) -> Iterator[str]:
    """Every check that the pair fails, one reason each; of the tokens, the first that differs."""
    if target.type != draft.type:
        yield f"vocabulary types differ: target {target.type}, drafter {draft.type}"
    for name in ("bos", "eos"):
        if reason := _policy_mismatch(name, target, draft):
            yield reason
    difference = abs(target.n_vocab - draft.n_vocab)
    if difference > MAX_SIZE_DIFFERENCE:
        yield (
            f"vocabulary sizes differ by {difference}: target {target.n_vocab}, drafter {draft.n_vocab}; "
            f"at most {MAX_SIZE_DIFFERENCE} padding tokens may differ"
        )
    if reason := _token_mismatch(target, draft):
        yield reason


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


def head_mismatch(host: Host, head: Head) -> str | None:
    """Why a head cannot read this target, or None when it can."""
    return next(head_mismatches(host, head), None)


def head_mismatches(host: Host, head: Head) -> Iterator[str]:
    """Every check that the head fails, one reason each.

    llama.cpp checks none of it: it aborts, or reads rows that mean nothing.
    """
    yield from _mtp_mismatches(host, head) if head.kind == MTP else _layer_mismatches(host, head)
    if head.kind in (DFLASH, DSPARK):
        yield from _block_mismatches(head)
    width, what = head.n_embd, "embedding width"
    if head.kind == EAGLE3:
        width, what = head.target_hidden_size, "target_hidden_size"
    elif head.architecture == GEMMA4_ASSISTANT:
        width, what = head.n_embd_out, "embedding_length_out"
    if width != host.n_embd:
        yield f"{what} {width} of the head is not the target's hidden width {host.n_embd}"
    if head.n_vocab is not None and head.n_vocab != host.n_vocab:
        yield f"vocabulary sizes differ: target {host.n_vocab}, head {head.n_vocab}"
    if head.mapped_ids is not None and not 0 <= head.mapped_ids[0] <= head.mapped_ids[1] < host.n_vocab:
        low, high = head.mapped_ids
        yield f"d2t maps to ids {low} to {high}; the target has {host.n_vocab} tokens"


def _layer_mismatches(host: Host, head: Head) -> Iterator[str]:
    layers = head.target_layers
    if not layers or (head.kind == EAGLE3 and len(layers) != EAGLE3_LAYERS):
        wanted = EAGLE3_LAYERS if head.kind == EAGLE3 else "at least 1"
        yield f"the file names {len(layers)} target layers, where {head.kind} needs {wanted}"
    if host.architecture not in LAYER_INPUTS:
        yield f"llama.cpp does not give out the layer inputs of architecture {host.architecture!r}"
    if layers and (min(layers) < 0 or max(layers) > host.n_layer):
        yield f"target layers {list(layers)} are not within the target's 0 to {host.n_layer}"
    if host.n_layer in layers and host.architecture not in LAST_OUTPUT:
        yield f"target layer {host.n_layer} is the last one's output, which {host.architecture!r} does not give out"


def _block_mismatches(head: Head) -> Iterator[str]:
    if not head.block_size or head.block_size < 2:
        yield f"block_size {head.block_size} leaves nothing to draft"
    if head.has_selector and not head.selector_top_k:
        yield f"selector_top_k {head.selector_top_k} leaves nothing to choose from"


def _shared_mismatches(host: Host, head: Head) -> Iterator[str]:
    """llama.cpp lets its layers read the target's last two, of which the first must be the sliding one."""
    if host.architecture != GEMMA4:
        yield f"{head.architecture} reads the KV cache of {GEMMA4}, the target is {host.architecture!r}"
        return
    unlike = sorted(head.reads_kv - head.target_kv)
    if unlike or not head.reads_kv:
        wanted = ", ".join(map(_kv_text, unlike)) or "no layer of a known kind"
        found = ", ".join(map(_kv_text, sorted(head.target_kv))) or "none"
        yield f"it reads {wanted} of the target's KV cache; the target's last two layers keep {found}"


def _kv_text(shape: KvShape) -> str:
    kind = "sliding" if shape.is_sliding else "full"
    return f"{kind} {shape.n_head_kv} x {shape.key_width}/{shape.value_width}"


def _mtp_mismatches(host: Host, head: Head) -> Iterator[str]:
    if head.architecture == GEMMA4_ASSISTANT:
        yield from _shared_mismatches(host, head)
        return
    if host.architecture in CROPPED_MTP_BLOCKS:
        yield f"llama.cpp's MTP graph of {host.architecture!r} drops the states of rows without logits"
    elif host.architecture not in MTP_BLOCKS:
        yield f"llama.cpp gives out no state for MTP on architecture {host.architecture!r}"
    if head.architecture != host.architecture:
        yield f"architectures differ: target {host.architecture!r}, head {head.architecture!r}"
    if head.num_mtp_layers != 1:
        yield f"the file has {head.num_mtp_layers} MTP blocks; llama.cpp's graph of {host.architecture!r} runs one"
