"""The header of a GGUF file, read without the native library, with every count and length held against the file.

Arrays are skipped, which makes a header of 150 000 tokens a matter of a tenth of a second; the tokens leave a digest.
Format: `ggml/include/gguf.h`.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from homespec.errors import ModelCorrupt, ModelNotFound
from homespec.store.cursor import ARRAY, SCALARS, STRING, BadHeader, Cursor
from homespec.store.ggml import BLOCKS, FILE_TYPES
from homespec.units import format_bytes

Value = int | float | bool | str

_MAGIC_BYTES = 4
_VERSIONS = (2, 3)
_MAX_DIMS = 4
_MAX_BYTES = 2**63 - 1
_TOKENS = "tokenizer.ggml.tokens"
_SMALLEST_ENTRY = 12
"""Bytes of a key or a tensor at the least: a length and a type."""


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    type: int
    """ggml_type."""
    num_elements: int
    offset: int
    """From the start of the data."""

    @property
    def size_bytes(self) -> int | None:
        """None for a type that is not known here."""
        if self.type not in BLOCKS:
            return None
        _, elements, size = BLOCKS[self.type]
        return -(-self.num_elements // elements) * size


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about itself."""

    metadata: dict[str, Value]
    """Without arrays."""
    lengths: dict[str, int]
    """Entries of each array."""
    tensors: tuple[Tensor, ...] = field(repr=False)
    data_offset: int
    vocabulary: str | None
    """Digest of the token texts in their order; None when there are none."""

    @property
    def architecture(self) -> str | None:
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None

    @property
    def n_ctx_train(self) -> int | None:
        value = self.metadata.get(f"{self.architecture}.context_length")
        return value if isinstance(value, int) else None

    @property
    def n_vocab(self) -> int | None:
        return self.lengths.get(_TOKENS)

    @property
    def quant(self) -> str | None:
        """The file's own word, else the type that holds most elements."""
        named = self.metadata.get("general.file_type")
        if isinstance(named, int) and named in FILE_TYPES:
            return FILE_TYPES[named]
        weights: Counter[int] = Counter()
        for tensor in self.tensors:
            weights[tensor.type] += tensor.num_elements
        if not weights or weights.most_common(1)[0][0] not in BLOCKS:
            return None
        return BLOCKS[weights.most_common(1)[0][0]][0]


def read_header(path: Path) -> Header:
    """Read and check the header; the tensors' data is not touched.

    Raises ModelNotFound when the file cannot be read, ModelCorrupt when the header breaks off or contradicts itself, or
    when a tensor ends behind the end of the file.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = _Reader(data).read()
            _check_tensors(path, header, len(data))
    except OSError as error:
        raise ModelNotFound(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    except BadHeader as error:
        raise ModelCorrupt(f"{path} has a broken GGUF header: {error}; download it again") from error
    except ValueError as error:  # an empty file cannot be mapped
        raise ModelCorrupt(f"{path} is not a GGUF file: it is empty; download it again") from error
    return header


def _check_tensors(path: Path, header: Header, have: int) -> None:
    ends = [(tensor.offset + size, tensor.name) for tensor in header.tensors if (size := tensor.size_bytes) is not None]
    if not ends:
        return
    end, name = max(ends)
    need = header.data_offset + end
    if need > have:
        raise ModelCorrupt(
            f"{path} is cut short: its last tensor {name!r} ends at byte {need}, the file has {have} "
            f"({format_bytes(need - have)} missing); download it again"
        )


class _Reader:
    """The header's parts in their order."""

    def __init__(self, data: mmap.mmap) -> None:
        self._cursor = Cursor(data, at=_MAGIC_BYTES)
        self._metadata: dict[str, Value] = {}
        self._lengths: dict[str, int] = {}
        self._vocabulary: str | None = None

    def read(self) -> Header:
        cursor = self._cursor
        version = cursor.scalar("<I")
        if version not in _VERSIONS:
            raise BadHeader(f"version {version} is not one of {_VERSIONS}")
        num_tensors = cursor.count(_SMALLEST_ENTRY, "tensors")
        num_keys = cursor.count(_SMALLEST_ENTRY, "keys")
        for _ in range(num_keys):
            self._pair()
        tensors = tuple(self._tensor() for _ in range(num_tensors))
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise BadHeader("two tensors have the same name")
        alignment = self._alignment()
        for tensor in tensors:
            if tensor.offset % alignment:
                raise BadHeader(f"tensor {tensor.name!r} lies at {tensor.offset}, not a multiple of {alignment}")
        data_offset = -(-cursor.at // alignment) * alignment
        return Header(self._metadata, self._lengths, tensors, data_offset, self._vocabulary)

    def _alignment(self) -> int:
        alignment = self._metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise BadHeader(f"alignment {alignment!r} is not a power of two")
        return alignment

    def _pair(self) -> None:
        key = self._cursor.string()
        if key in self._metadata or key in self._lengths:
            raise BadHeader(f"key {key!r} is there twice")
        kind = self._cursor.scalar("<I")
        if kind == ARRAY:
            self._lengths[key] = self._array(key)
        elif kind == STRING:
            self._metadata[key] = self._cursor.string()
        elif kind in SCALARS:
            self._metadata[key] = self._cursor.scalar(SCALARS[kind])
        else:
            raise BadHeader(f"key {key!r} has the unknown type {kind}")

    def _array(self, key: str) -> int:
        """Skip the entries; how many there are."""
        cursor, what = self._cursor, f"entries of {key!r}"
        kind = cursor.scalar("<I")
        if kind == STRING:
            count = cursor.count(8, what)
            content = cursor.skip_strings(count)
            if key == _TOKENS:
                self._vocabulary = hashlib.blake2b(content, digest_size=16).hexdigest()
        elif kind in SCALARS:
            size = struct.calcsize(SCALARS[kind])
            count = cursor.count(size, what)
            cursor.skip(count * size)
        else:
            raise BadHeader(f"array {key!r} has the unknown entry type {kind}")
        return count

    def _tensor(self) -> Tensor:
        cursor = self._cursor
        name = cursor.string()
        num_dims = cursor.scalar("<I")
        if num_dims > _MAX_DIMS:
            raise BadHeader(f"tensor {name!r} has {num_dims} dimensions, the limit is {_MAX_DIMS}")
        num_elements = math.prod(cursor.scalar("<Q") for _ in range(num_dims))
        kind, offset = cursor.scalar("<I"), cursor.scalar("<Q")
        if num_elements > _MAX_BYTES or offset > _MAX_BYTES:
            raise BadHeader(f"tensor {name!r} is larger than any file")
        return Tensor(name, kind, num_elements, offset)
