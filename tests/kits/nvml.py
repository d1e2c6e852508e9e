"""A stand-in for NVIDIA's driver library, compiled when a test needs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LIBRARY = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).parent / "fake_nvml.c"


def build_driver(folder: Path, *flags: str) -> Path:
    """Compile it into `folder`, for LD_LIBRARY_PATH. Skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the stand-in of the driver's library")
    command = [compiler, "-w", "-shared", "-fPIC", *flags, "-o", str(folder / LIBRARY), str(_SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return folder
