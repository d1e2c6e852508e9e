"""What this installation of llama.cpp can do, as JSON on stdout: `python -m homespec.engine.facts`.

A process of its own, because loading the library may abort, and that is an answer too.
"""

from __future__ import annotations

import json
from importlib.metadata import version

from homespec.engine.drafters.kind import SYMBOLS
from homespec.engine.llama.library import library
from homespec.engine.threads import default_threads


def facts() -> dict[str, object]:
    """Versions, devices and gaps of the native library."""
    native = library()
    return {
        "llama_cpp_python": native.version,
        "llguidance": version("llguidance"),
        "numpy": version("numpy"),
        "devices": [*native.offload_devices(), "CPU"],
        "threads": default_threads(),
        "features": list(native.features()),
        "missing_symbols": list(native.missing),
        "drafters": {kind: _missing(symbols) for kind, symbols in SYMBOLS.items()},
    }


def _missing(symbols: tuple[str, ...]) -> list[str]:
    """What a drafter needs and this build lacks."""
    return [name for name in symbols if name in library().missing]


if __name__ == "__main__":
    print(json.dumps(facts()))
