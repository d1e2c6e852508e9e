"""How NVIDIA's driver is asked: in a process of its own, started by name. Only that one loads the driver's library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

COMMAND = (sys.executable, "-P", "-m", "homespec.headroom.nvml")  # -P: the working directory must not shadow modules
TIMEOUT_S = 10.0
_END_TIMEOUT_S = 0.5
_WSL_LIBRARIES = Path("/usr/lib/wsl/lib")


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Of that process. WSL keeps the driver's library where the loader does not look."""
    if not _WSL_LIBRARIES.is_dir():
        return dict(given)
    folders = [*filter(None, [given.get("LD_LIBRARY_PATH")]), str(_WSL_LIBRARIES)]
    return {**given, "LD_LIBRARY_PATH": os.pathsep.join(folders)}


def ask(question: str, command: Sequence[str] = COMMAND) -> subprocess.CompletedProcess[str]:
    """Ask once, and wait for the end of it. Raises OSError, and subprocess.TimeoutExpired when there is no answer."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(os.environ), start_new_session=True
    )
    try:
        said, complaints = process.communicate(f"{question}\n", TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):  # inside a wedged driver it ends when it can, or never
            process.wait(_END_TIMEOUT_S)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, said, complaints)
