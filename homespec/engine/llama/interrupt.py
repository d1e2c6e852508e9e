"""A way out of a call to the library that takes long."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from homespec.engine.llama.bindings import C

_IS_SET = ctypes.cast(ctypes.CDLL(None).strlen, C.ggml_abort_callback)
"""Of a text of at most one character it says 0 or 1. A callback in Python would take the interpreter's lock some
thousand times in a call.
"""
_NEVER = C.ggml_abort_callback()


class Interrupt:
    """A flag that a decode looks at between the operations of its graph, on the CPU and on Metal; other devices do not
    look. Any thread may set it; a call that it is armed for then ends before its time.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)

    def set(self) -> None:
        self._text[0] = b"!"

    def clear(self) -> None:
        self._text[0] = b"\0"

    @contextmanager
    def armed(self, handle: Any) -> Iterator[None]:
        """For the calls of this context, as long as it lasts."""
        C.llama_set_abort_callback(handle, _IS_SET, ctypes.addressof(self._text))
        try:
            yield
        finally:
            C.llama_set_abort_callback(handle, _NEVER, None)
