"""Answers on disk, appended one by one: what lets past answers survive a restart."""

from __future__ import annotations

import errno
import logging
import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import msgspec

logger = logging.getLogger("homespec.engine.drafters")

_LENGTH = struct.Struct(">I")


class _Record(msgspec.Struct, frozen=True, array_like=True):
    partition: str
    token_ids: bytes
    """32-bit integers in the machine's order; empty in the first record, which names the model."""


class Journal:
    """Two files, one per generation, readable by their owner only. Faults of the disk are logged, never raised.

    A record is a four-byte big-endian length and a msgpack array. The first one names the model: its token ids mean
    nothing to another one, and a file of another one is started afresh.
    """

    def __init__(self, path: Path, model: str) -> None:
        self._path = path
        self._old = path.with_name(path.name + ".old")
        self._model = model

    def read(self) -> Iterator[tuple[str, list[int]]]:
        """All answers, oldest first. What a crash has left half written at the end is cut off."""
        for path in (self._old, self._path):
            yield from self._read(path)

    def append(self, partition: str, token_ids: Sequence[int]) -> None:
        try:
            self._write(_Record(partition, array("i", token_ids).tobytes()))
        except OSError as error:
            logger.warning("a past answer is not kept: %s: %s", self._path, error.strerror)

    def rotate(self) -> None:
        """The young generation has become the old one."""
        try:
            if self._path.exists():
                self._path.replace(self._old)
        except OSError as error:
            logger.warning("past answers are not kept: %s: %s", self._path, error.strerror)

    def _read(self, path: Path) -> Iterator[tuple[str, list[int]]]:
        try:
            data = path.read_bytes() if path.exists() else b""
        except OSError as error:
            logger.warning("past answers are not read: %s: %s", path, error.strerror)
            return
        end = 0
        for start, stop in _bodies(data):
            record = _decoded(data[start:stop])
            if record is None or (end == 0 and record.partition != self._model):
                break
            if end:
                yield record.partition, array("i", record.token_ids).tolist()
            end = stop
        if end < len(data):
            logger.info("%s: the last %d of %d bytes are of no use and are cut off", path, len(data) - end, len(data))
            _truncate(path, end)

    def _write(self, record: _Record) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "ab", buffering=0) as file:  # noqa: PTH123
            start = file.tell()
            head = b"" if start else _encoded(_Record(self._model, b""))
            _write_whole(file, head + _encoded(record), start)


def _encoded(record: _Record) -> bytes:
    body = msgspec.msgpack.encode(record)
    return _LENGTH.pack(len(body)) + body


def _decoded(body: bytes) -> _Record | None:
    try:
        record = msgspec.msgpack.decode(body, type=_Record)
    except msgspec.MsgspecError:
        return None
    return record if len(record.token_ids) % array("i").itemsize == 0 else None


def _bodies(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each whole record begins and ends."""
    stop = 0
    while stop + _LENGTH.size <= len(data):
        start = stop + _LENGTH.size
        stop = start + _LENGTH.unpack_from(data, stop)[0]
        if stop > len(data):
            return
        yield start, stop


def _write_whole(file: FileIO, data: bytes, start: int) -> None:
    """All or nothing: whatever is appended behind half a record could not be read again. Raises OSError."""
    try:
        if file.write(data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        file.truncate(start)
        raise


def _truncate(path: Path, length: int) -> None:
    try:
        os.truncate(path, length)
    except OSError as error:
        logger.warning("past answers cannot be tidied: %s: %s", path, error.strerror)
