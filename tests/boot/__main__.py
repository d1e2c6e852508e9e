"""`python -m tests.boot`: a Debian that boots under systemd-nspawn, with the daemon as the unit of packaging/.

Needs root, systemd-nspawn and debootstrap; where they are missing it says so and ends with 0. The tree is fetched once
and kept in build/boot; what a run changes in it lies in memory.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.boot.tree import REPOSITORY, NoTree, binds, prepare

TIME_LIMIT_S = 420
REPORT = "report"
DONE = "all of it holds"
_FOLDER = REPOSITORY / "build" / "boot"


def missing() -> str | None:
    """Why this machine cannot boot a tree; None when it can."""
    tools = [tool for tool in ("systemd-nspawn", "debootstrap") if shutil.which(tool) is None]
    if tools:
        return f"{' and '.join(tools)} not installed (Debian: apt install systemd-container debootstrap)"
    if os.geteuid() != 0:
        return "it takes root"
    return None


def boot(tree: Path, results: Path) -> int:
    """Run the tree until it powers off; nspawn's exit code. What it prints goes to a file beside the report."""
    command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--volatile=overlay"]
    # The port may be taken outside.
    command += ["--private-network"]
    command += [f"--directory={tree}", "--machine=homespec-boot", "--console=read-only", f"--bind={results}:/results"]
    with (results / "console").open("wb") as console:
        process = subprocess.Popen(
            [*command, *binds()], stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT
        )
        try:
            return process.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            process.terminate()
            process.wait()


def main() -> int:
    # The tree must not go on booting alone.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if reason := missing():
        print(f"boot test skipped: {reason}")
        return 0
    try:
        tree = prepare(_FOLDER)
    except NoTree as error:
        print(f"boot test skipped: {error}")
        return 0
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        results = Path(folder)
        code = boot(tree, results)
        report = results / REPORT
        text = report.read_text(errors="replace") if report.exists() else ""
        print(text, end="")
        if DONE in text:
            return 0
        print(f"boot test failed: nspawn ended with {code}; the end of the console:")
        print("\n".join((results / "console").read_text(errors="replace").splitlines()[-60:]))
        return 1


if __name__ == "__main__":
    sys.exit(main())
