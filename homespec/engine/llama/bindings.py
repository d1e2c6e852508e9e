"""The C interface of llama-cpp-python: `C`. The only import of the package.

`import llama_cpp` also loads the Python API on top of it, with chat formats, Jinja and a disk cache: a sixth of what an
engine imports before it can load a model, and nothing that is used here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = ["VERSION", "C"]

_PYTHON_API = "llama_cpp.llama"


@contextmanager
def _without_python_api() -> Iterator[None]:
    """While the package is imported. Whoever wants the rest later imports `llama_cpp.llama`."""
    if _PYTHON_API in sys.modules:
        yield
        return
    sys.modules[_PYTHON_API] = ModuleType(_PYTHON_API)
    try:
        yield
    finally:
        del sys.modules[_PYTHON_API]


with _without_python_api():
    import llama_cpp.llama_cpp as C
    from llama_cpp import __version__ as VERSION
