"""What a draft file holds, from its GGUF header alone: an ordinary model, or a head that reads the target's states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from homespec.engine.llama.gguf import TensorInfo, open_header

DRAFT, EAGLE3, MTP, DFLASH, DSPARK = "draft", "eagle3", "mtp", "dflash", "dspark"
"""Names of the drafters that come from a file."""

_LAYER_TAPS = ("llama_set_embeddings_layer_inp", "llama_get_embeddings_layer_inp")
_STATES = ("llama_set_embeddings_nextn", "llama_get_embeddings_nextn")
SYMBOLS: dict[str, tuple[str, ...]] = {
    DRAFT: (),
    EAGLE3: (*_LAYER_TAPS, *_STATES),
    MTP: _STATES,
    DFLASH: (*_LAYER_TAPS, *_STATES),
    DSPARK: (*_LAYER_TAPS, *_STATES),
}
"""Functions of llama-ext.h that each of them cannot do without."""

GEMMA4, GEMMA4_ASSISTANT = "gemma4", "gemma4-assistant"
_FIRST_NORM = "blk.0.attn_norm.weight"


class KvShape(NamedTuple):
    """Keys and values of a layer."""

    is_sliding: bool
    n_head_kv: int
    key_width: int
    value_width: int


class Header(Protocol):
    """What is read of a GGUF header."""

    @property
    def architecture(self) -> str: ...
    def get(self, key: str) -> Any: ...
    def count(self, key: str) -> int | None: ...
    def tensors(self) -> Iterable[TensorInfo]: ...


@dataclass(frozen=True, slots=True)
class Head:
    """A draft file's kind and sizes. None where the file does not say."""

    kind: str
    architecture: str
    n_embd: int | None = None
    n_vocab: int | None = None
    target_layers: tuple[int, ...] = ()
    """Layers of the target whose inputs it reads."""
    target_hidden_size: int | None = None
    n_embd_out: int | None = None
    """Width of the states that it gives and takes, where that is not `n_embd`."""
    num_mtp_layers: int = 0
    is_in_target: bool = False
    """It is a block of the target's own file."""
    block_size: int | None = None
    is_causal: bool = False
    has_mrope: bool = False
    samples_from_anchor: bool = True
    """DSpark: the row of the last token drafts too; else only those of the masks behind it."""
    has_confidence: bool = False
    has_selector: bool = False
    """DFlash chooses among candidates by pairs of neighbours."""
    selector_top_k: int | None = None
    """How many candidates each row has for that."""
    mapped_ids: tuple[int, int] | None = None
    """Smallest and largest target id that a reduced draft vocabulary maps to."""
    reads_kv: frozenset[KvShape] = frozenset()
    """What its layers expect of the target's cache, where they have none of their own."""
    target_kv: frozenset[KvShape] = frozenset()
    """What the target's last two layers keep, which is what it gets."""

    @property
    def reads_target(self) -> bool:
        return self.kind != DRAFT


def read_head(path: Path, target_path: Path) -> Head:
    """What is in `path`, next to the target in `target_path`. Raises ModelError when the header cannot be read."""
    with open_header(path) as header:
        mapped = next((tensor for tensor in header.tensors() if tensor.name == "d2t"), None)
        mapped_ids = None if mapped is None else _range_of(path, header.data_offset + mapped.offset, mapped.size_bytes)
        head = head_in(header, is_target=path.samefile(target_path), mapped_ids=mapped_ids)
        if head.architecture != GEMMA4_ASSISTANT:
            return head
        reads_kv = frozenset(kv_shapes(header))
    with open_header(target_path) as target:
        return replace(head, reads_kv=reads_kv, target_kv=frozenset(kv_shapes(target)[-2:]))


def head_in(header: Header, *, is_target: bool, mapped_ids: tuple[int, int] | None = None) -> Head:
    """The markers of llama.cpp's converters; what has another type than theirs is as if it were not there.

    An ordinary model that carries an MTP block drafts with all of itself, unless it is the target or lacks the trunk.
    """
    architecture = header.architecture
    names = {tensor.name for tensor in header.tensors()}

    def value(key: str) -> Any:
        return header.get(f"{architecture}.{key}")

    def number(key: str) -> int | None:
        found = value(key)
        return found if isinstance(found, int) else None

    layers = value("target_layers")
    num_mtp_layers = number("nextn_predict_layers") or 0
    last = (number("block_count") or 0) - 1
    has_mtp = num_mtp_layers > 0 and f"blk.{last}.nextn.eh_proj.weight" in names
    kind = _kind(architecture, names, has_mtp=has_mtp and (is_target or _FIRST_NORM not in names))
    return Head(
        kind=kind,
        architecture=architecture,
        n_embd=number("embedding_length"),
        n_vocab=header.count("tokenizer.ggml.tokens"),
        target_layers=tuple(layers) if _are_numbers(layers) else (),
        target_hidden_size=number("target_hidden_size"),
        n_embd_out=number("embedding_length_out"),
        num_mtp_layers=num_mtp_layers,
        is_in_target=is_target and kind == MTP,
        block_size=number("block_size"),
        is_causal=bool(value("attention.causal")),
        has_mrope=value("rope.dimension_sections") is not None,
        samples_from_anchor=value("sample_from_anchor") in (None, True),
        has_confidence="conf_proj.weight" in names,
        has_selector="selector_hidden.weight" in names,
        selector_top_k=number("selector_top_k"),
        mapped_ids=mapped_ids,
    )


def kv_shapes(header: Header) -> list[KvShape]:
    """Layer by layer, for architectures of the Gemma 4 family; empty where the header does not say."""

    def value(key: str) -> Any:
        return header.get(f"{header.architecture}.attention.{key}")

    pattern, heads = value("sliding_window_pattern"), value("head_count_kv")
    if not isinstance(pattern, list) or heads is None:
        return []
    are_sliding = list(map(bool, pattern))
    counts = heads if isinstance(heads, list) else [heads] * len(pattern)
    widths = {
        False: (value("key_length"), value("value_length")),
        True: (value("key_length_swa"), value("value_length_swa")),
    }
    shapes = [KvShape(sliding, count, *widths[sliding]) for sliding, count in zip(are_sliding, counts, strict=False)]
    return shapes if all(_are_numbers(list(shape)) for shape in shapes) else []


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, int) for each in value)


def _kind(architecture: str, names: set[str], *, has_mtp: bool) -> str:
    if architecture == "eagle3":
        return EAGLE3
    if architecture == "dflash":
        return DSPARK if "markov_w1.weight" in names else DFLASH
    return MTP if has_mtp or architecture == GEMMA4_ASSISTANT else DRAFT


def _range_of(path: Path, offset: int, size_bytes: int) -> tuple[int, int] | None:
    """Smallest and largest entry of a table of 64-bit ids; None when it is empty or cut short."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(size_bytes)
    ids = np.frombuffer(data, np.int64, count=len(data) // 8)
    return (int(ids.min()), int(ids.max())) if len(ids) else None
