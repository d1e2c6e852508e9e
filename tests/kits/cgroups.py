"""A real memory control group, where the system lets us make one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group with a limit."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def join(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Skips the test, with the reason, where no group can be made. The processes in it must be gone at the end."""
    limit_file = "memory.limit_in_bytes" if (_V1 / "memory.limit_in_bytes").exists() else "memory.max"
    parent = _V1 if limit_file == "memory.limit_in_bytes" else _V2
    path = parent / f"homespec-test-{uuid.uuid4().hex[:12]}"
    try:
        path.mkdir()
        (path / limit_file).write_text(str(limit_bytes))
    except OSError as error:
        with suppress(OSError):
            path.rmdir()
        pytest.skip(f"no memory control group can be made in {parent}: {error.strerror}")
    try:
        yield MemoryGroup(path)
    finally:
        for _ in range(200):  # the kernel needs a moment to let go of the last process
            try:
                path.rmdir()
                break
            except OSError:
                time.sleep(0.05)
