"""A cursor over the bytes of a GGUF header that never leaves the file."""

from __future__ import annotations

import mmap
import struct

STRING, ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
"""gguf_type: the `struct` format of those that are neither texts nor arrays."""
MAX_TEXT_BYTES = 64 * 1024 * 1024
"""A damaged length may still lie inside a large file, whose weights would be read as the text."""
_BREAKS_OFF = "it breaks off"


class BadHeader(Exception):
    """What is wrong, without the file's name."""


class Cursor:
    """Reads forward from `at`. Raises BadHeader for whatever would lie behind the end."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self._size = len(data)
        self.at = at

    def scalar(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > self._size:
            raise BadHeader(_BREAKS_OFF)
        value: int = struct.unpack_from(form, self._data, self.at)[0]
        self.at += size
        return value

    def string(self) -> str:
        length = self.scalar("<Q")
        if length > self._size - self.at:
            raise BadHeader(f"a text of {length} bytes does not fit into the file's {self._size}")
        if length > MAX_TEXT_BYTES:
            raise BadHeader(f"a text has {length} bytes, the limit is {MAX_TEXT_BYTES}")
        text = self._data[self.at : self.at + length]
        self.at += length
        return text.decode("utf-8", errors="replace")

    def count(self, smallest: int, what: str) -> int:
        """A count of things that take at least `smallest` bytes each."""
        count = self.scalar("<Q")
        if count * smallest > self._size - self.at:
            raise BadHeader(f"it promises {count} {what}, more than fit into the {self._size} bytes of the file")
        return count

    def skip(self, num_bytes: int) -> None:
        """`num_bytes` were held against the file by `count`."""
        self.at += num_bytes

    def skip_strings(self, count: int) -> bytes:
        """The bytes that were skipped."""
        start, at, size, unpack = self.at, self.at, self._size, struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > size:
                raise BadHeader(_BREAKS_OFF)
            at += 8 + unpack(self._data, at)[0]
        if at > size:
            raise BadHeader(_BREAKS_OFF)
        self.at = at
        return self._data[start:at]
