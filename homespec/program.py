"""How this program is called, for commands that people are told to type."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def program() -> str:
    """`homespec` where that is found on the path and is this one, else as it was called: `.venv/bin/homespec`."""
    called = Path(sys.argv[0])
    if called.name != "homespec":
        return "homespec"  # python -m homespec, or a program that is made of it
    found = shutil.which("homespec")
    return "homespec" if found and called.exists() and Path(found).samefile(called) else str(called)
