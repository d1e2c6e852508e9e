"""One job in a process of its own: the native library may abort. Progress and result come as lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from homespec.child import engine_environment
from homespec.errors import DeriveError
from homespec.units import format_exit


def run_child(job: str, options: dict[str, Any], *, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """What `python -m homespec.engine.derive` says about `job`. Raises DeriveError with its reason."""
    command = [sys.executable, "-P", "-m", "homespec.engine.derive", job, json.dumps(options)]
    result: dict[str, Any] | None = None
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=engine_environment(os.environ)
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    message = json.loads(line)
                    if "progress" in message and progress is not None:
                        progress(message["progress"])
                    result = message if "progress" not in message else result
            except BaseException:
                process.kill()
                raise
        log.seek(0)
        said = log.read().strip().splitlines()
    if result is None:
        how = format_exit(process.returncode)
        raise DeriveError(f"llama.cpp: {how}: {said[-1] if said else 'it gave no reason'}")
    if "error" in result:
        raise DeriveError(result["error"])
    return result
