"""What a child writes by the way does not get between its answers."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import os
from homespec.parent import reserve_stdout
answers = reserve_stdout()
os.write(1, b"a library's words")
print("and Python's", flush=True)
answers.write(b"the answer")
answers.flush()
"""


def test_stdout_holds_answers_alone() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, check=True)
    assert done.stdout == b"the answer"
    assert b"a library's words" in done.stderr
    assert b"and Python's" in done.stderr
