"""Frames on the socket between the daemon and its engine.

A frame is a four-byte big-endian length and a msgpack map tagged with the struct's name.
"""

from __future__ import annotations

import socket
import struct
import threading

import msgspec

from homespec.errors import EngineError
from homespec.frames import Frame, FromEngine, ToEngine

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")

_encoder = msgspec.msgpack.Encoder()
_from_engine = msgspec.msgpack.Decoder(FromEngine)
_to_engine = msgspec.msgpack.Decoder(ToEngine)


def encode(frame: Frame) -> bytes:
    """The frame with its length in front."""
    body = _encoder.encode(frame)
    if len(body) > MAX_FRAME_BYTES:
        raise EngineError(f"frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """Length of the body that follows `header`; raises EngineError when it is over the limit."""
    (length,) = _LENGTH.unpack(header)
    if length > MAX_FRAME_BYTES:
        raise EngineError(f"frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
    return int(length)


HEADER_BYTES = _LENGTH.size


def decode_from_engine(body: bytes) -> FromEngine:
    return _from_engine.decode(body)


class Link:
    """The engine's end of the socket: blocking reads from one thread, writes from any."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = sock.makefile("rb")
        self._write_lock = threading.Lock()

    def receive(self) -> ToEngine | None:
        """The next frame, or None when the daemon is gone."""
        try:
            header = self._reader.read(HEADER_BYTES)
            if len(header) < HEADER_BYTES:
                return None
            length = body_length(header)
            body = self._reader.read(length)
        except ConnectionError:  # it went without reading all that was sent to it
            return None
        return _to_engine.decode(body) if len(body) == length else None

    def send(self, frame: Frame) -> None:
        """Raises OSError when the daemon is gone."""
        data = encode(frame)
        with self._write_lock:
            self._sock.sendall(data)
